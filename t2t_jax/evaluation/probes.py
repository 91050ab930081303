"""Does a model find the right translation likelier than one that is wrong in a single thing?

In: probes of the embedded corpus (kinds: see data/corpora/grammar.py). Out: the share that a model
gets right, from 0 to 1; chance is a half.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from t2t_jax.data.corpora.grammar import probes

# Source and target language of each kind of probe.
PROBE_LANGUAGES = {
    "order": ("en", "de"),
    "pronoun": ("en", "de"),
    "sense": ("de", "en"),
}
# The same probes for every model, so that all can be compared.
_SEED = 0

LogLikelihoods = Callable[[Sequence[str], Sequence[str]], Float[np.ndarray, " pairs"]]


def probe_scores(
    languages: tuple[str, str], num_probes: int, log_likelihoods: LogLikelihoods
) -> dict[str, float]:
    """The share of each kind's probes whose right target is likelier than the wrong one.

    A tie counts half. Log-probabilities that are NaN are never right.

    Args:
      languages: source and target of the model; probes of another direction are left out.
      num_probes: of each kind; 0 for none.
      log_likelihoods: of targets given sources, in nats. Called once, for all kinds together.

    Raises:
      ValueError: `num_probes` is negative.
    """
    kinds = [kind for kind, its in PROBE_LANGUAGES.items() if its == languages]
    asked = [probe for kind in kinds for probe in probes(kind, num_probes, _SEED)]
    if not asked:
        return {}
    sources = [probe.source for probe in asked]
    targets = [probe.right for probe in asked] + [probe.wrong for probe in asked]
    right, wrong = log_likelihoods(sources * 2, targets).reshape(2, len(kinds), num_probes)
    shares = ((right > wrong) + 0.5 * (right == wrong)).mean(1)
    return dict(zip(kinds, shares.tolist(), strict=True))
