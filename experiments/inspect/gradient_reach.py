"""How far a gradient reaches: from the last state of the encoder back to each word before it.

    python -m experiments.inspect.gradient_reach W/recurrent/*/seed-0

For every trained run, prints the norm of d (v . h_n) / d x_(n-k) at distances k, over that at
distance 0; h_n is the encoder's state at the last of n words, x_i an embedding, v any direction.
Mean over sentences of distinct words. A model learns about a word through this gradient: recurrence
multiplies it by a matrix at every word in between, attention reaches every word in one step.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from absl import app
from jaxtyping import Float

from t2t_jax.cli.command import parse_flags

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    from jaxtyping import PyTree

    from t2t_jax.model.interface import TranslationModel

_LENGTH, _SENTENCES = 65, 32
_DISTANCES = (0, 1, 2, 4, 8, 16, 32, 64)
_FIRST_PIECE = 4  # after padding, start, end and unknown


def gradient_norms(
    model: "TranslationModel",
    params: "PyTree",
    vocabulary_size: int,
    *,
    length: int = _LENGTH,
    num_sentences: int = _SENTENCES,
) -> Float[np.ndarray, " length"]:
    """Norm of the gradient at each distance from the last word, mean over sentences.

    Raises:
      ValueError: the vocabulary has too few pieces for sentences of distinct ones.
    """
    import jax
    import jax.numpy as jnp

    if vocabulary_size - _FIRST_PIECE < length:
        raise ValueError(f"{length} different words need more than {vocabulary_size} pieces")
    name = "source_embedding" if "source_embedding" in params else "embedding"

    @jax.jit
    def norms(ids, direction):
        def last_state(table):
            changed = {**params, name: {**params[name], "table": table}}
            encoded = model.bind({"params": changed}).encode(ids[None], deterministic=True)
            return encoded.states[0, -1].astype(jnp.float32) @ direction

        # Each word occurs once, so the gradient of its row is that of its position.
        grads = jax.grad(last_state)(params[name]["table"])
        return jnp.linalg.norm(grads[ids], axis=-1)[::-1]

    rng = np.random.default_rng(0)
    found = []
    for _ in range(num_sentences):
        ids = _FIRST_PIECE + rng.permutation(vocabulary_size - _FIRST_PIECE)[:length]
        direction = rng.normal(size=params[name]["table"].shape[1])
        direction /= np.linalg.norm(direction)
        found.append(norms(ids.astype(np.int32), direction.astype(np.float32)))
    return np.mean(found, axis=0)


def table(directories: Sequence[Path]) -> str:
    """A line per run: its gradient at some distances, over that at distance 0.

    Raises:
      ValueError: a directory has no trained run, a model without an encoder, or an ensemble.
    """
    from t2t_jax.model.interface import TranslationModel
    from t2t_jax.runs.families import check_is_one
    from t2t_jax.runs.workdir import load_trained

    names = [f"{path.parent.name}/{path.name}" for path in directories]
    width = max(map(len, names))
    lines = [f"{'distance':<{width}}" + "".join(f"{distance:>10}" for distance in _DISTANCES)]
    for name, directory in zip(names, directories, strict=True):
        trained = load_trained(directory)
        if not isinstance(trained.model, TranslationModel):
            family = trained.sections.model.family
            raise ValueError(f"{directory} holds a model without an encoder, {family}")
        check_is_one(trained.model, str(directory))
        norms = gradient_norms(trained.model, trained.params, trained.vocabulary.size)
        shares = norms[list(_DISTANCES)] / norms[0]
        lines.append(f"{name:<{width}}" + "".join(f"{share:>10.2g}" for share in shares))
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Runs the command."""
    if len(argv) < 2:
        sys.exit("gradient_reach: name at least one directory of a trained run; see --help")
    try:
        print(table([Path(argument) for argument in argv[1:]]))
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"gradient_reach: {error}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse_flags, "gradient_reach"))
