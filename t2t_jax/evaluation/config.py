"""How translations are scored."""

from typing import Literal

from t2t_jax.config_checks import check_at_least, check_types, config_section
from t2t_jax.data.corpora.grammar import MOST_PROBES

# The tokenizers of sacreBLEU that need neither a download nor another package.
BleuTokenizer = Literal["13a", "intl", "char", "zh", "none"]


@config_section
class EvaluationConfig:
    """A way to score, checked once, on creation.

    Raises:
      ValueError: a value is not allowed.
      TypeError: a value has the wrong type.
    """

    bleu_tokenizer: BleuTokenizer  # sacreBLEU's name; published scores use "13a"
    bleu_lowercase: bool  # False: case counts
    bleu_on_dev: bool  # whether an experiment also translates dev, as in the paper's Table 3
    bleu_on_long: bool  # whether it also translates the embedded corpus's long sentences
    num_probes: int  # per kind that the direction has; embedded corpus only; at most 500

    @property
    def translated_splits(self) -> list[str]:
        """The splits that an experiment translates at its end."""
        is_translated = {"dev": self.bleu_on_dev, "test": True, "long": self.bleu_on_long}
        return [split for split in is_translated if is_translated[split]]

    def __post_init__(self) -> None:
        check_types("evaluation", self)
        check_at_least("evaluation", self, 0, ["num_probes"])
        if self.num_probes > MOST_PROBES:
            raise ValueError(
                f"evaluation.num_probes={self.num_probes}; the corpus has at most {MOST_PROBES} of "
                "each kind"
            )
