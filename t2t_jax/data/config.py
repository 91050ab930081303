"""What to prepare and how to batch it: the section `config.data`."""

import dataclasses
from typing import Literal, no_type_check

from t2t_jax.config_checks import check_at_least, check_rates, check_types

Task = Literal["translation", "language_modelling", "masked_language_modelling", "classification"]
Source = Literal["embedded", "text"]
VocabularyKind = Literal["bpe", "unigram", "word", "char"]
# SentencePiece accepts no other range.
_COVERAGE_RANGE = (0.98, 1.0)


@no_type_check  # of its own: tests would have the arguments checked before it can
@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the sentences come from, how they become token ids and how long a batch is.

    Raises:
      ValueError: a value is not allowed.
      TypeError: a value has the wrong type.
    """

    task: Task  # what the model is to learn of the corpus, hence what a batch holds
    source: Source  # "embedded" (our own grammar) or "text" (files)
    directory: str  # text: holds {train,dev,test}.LANGUAGE[.gz], for classification .labels[.gz]
    source_language: str  # the one of masked language modelling and classification
    target_language: str  # the one of language modelling
    train: str  # text: file stem of the split, as are the next two
    dev: str
    test: str
    corpus_seed: int  # embedded: seed of the grammar
    train_pairs: int  # embedded: size of train; classification: pairs of two sentences each
    vocabulary_kind: VocabularyKind
    vocabulary_size: int  # pieces, the reserved ones included
    character_coverage: float  # share of the text's characters that get a piece of their own
    max_length: int  # tokens a side, start and end included; longer train pairs are dropped
    cache: str  # directory where prepared data goes
    source_tokens_per_batch: int  # padding included
    target_tokens_per_batch: int  # padding included
    num_buckets: int  # at most so many batch shapes, hence compilations
    mask_rate: float  # masked_language_modelling: share of the tokens to be guessed

    def __post_init__(self) -> None:
        check_types("data", self)
        self._check_languages()
        self._check_numbers()
        if self.source == "text":
            self._check_text_files()
        if not self.cache:
            raise ValueError("data.cache='' is empty: name a directory for prepared data")

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages whose text the task reads."""
        if self.task == "translation":
            return self.source_language, self.target_language
        if self.task == "language_modelling":
            return (self.target_language,)
        return (self.source_language,)

    @property
    def direction(self) -> str:
        """ "en-de" for a translation, the language alone for a task that reads only one."""
        return "-".join(self.languages)

    def _check_languages(self) -> None:
        for name in ("source_language", "target_language"):
            language = getattr(self, name)
            if not language or "/" in language:
                raise ValueError(
                    f"data.{name}={language!r} is no file ending: write one such as 'en'"
                )
            if self.source == "embedded" and language not in ("en", "de"):
                raise ValueError(
                    f"data.{name}={language!r}: the embedded corpus has only 'en' and 'de'"
                )
        if self.task == "translation" and self.source_language == self.target_language:
            raise ValueError(
                f"data.source_language and target_language are both {self.source_language!r}: "
                "they must differ"
            )

    def _check_numbers(self) -> None:
        check_at_least("data", self, 0, ("corpus_seed",))
        budgets = ("source_tokens_per_batch", "target_tokens_per_batch")
        check_at_least("data", self, 1, ("train_pairs", "num_buckets", *budgets))
        check_rates("data", self, ("mask_rate",))
        is_masked = self.task == "masked_language_modelling"
        if is_masked and self.mask_rate == 0:
            raise ValueError("data.mask_rate=0.0: task='masked_language_modelling' needs above 0")
        check_at_least("data", self, 2, ("max_length",))  # one token and the end of the sentence
        # Four reserved, with masks a fifth, and one to write with.
        check_at_least("data", self, 6 if is_masked else 5, ("vocabulary_size",))
        low, high = _COVERAGE_RANGE
        if not low <= self.character_coverage <= high:
            raise ValueError(
                f"data.character_coverage={self.character_coverage} must lie between {low} and "
                f"{high}"
            )

    def _check_text_files(self) -> None:
        if not self.directory:
            raise ValueError(
                "data.directory='' is empty: source='text' needs the directory of the text files"
            )
        for split in ("train", "dev", "test"):
            if not getattr(self, split):
                raise ValueError(
                    f"data.{split}='' is empty: source='text' needs a file stem for it"
                )
