"""What to prepare and how to batch it: the section `config.data`."""

from typing import Literal

from t2t_jax.config_checks import check_at_least, check_rates, check_types, config_section

Task = Literal["translation", "language_modelling", "masked_language_modelling", "classification"]
CorpusKind = Literal["embedded", "text", "tfds"]
Batching = Literal["bucketed", "packed"]
VocabularyKind = Literal["bpe", "unigram", "word", "char"]
# SentencePiece accepts no other range.
_COVERAGE_RANGE = (0.98, 1.0)


@config_section
class DataConfig:
    """Where the sentences come from, how they become token ids, and how large a batch is.

    Raises:
      ValueError: a value is not allowed.
      TypeError: a value has the wrong type.
    """

    task: Task  # what the model learns from the corpus, hence what a batch holds
    source: CorpusKind  # "embedded" (our own grammar), "text" (files) or "tfds"
    name: str  # tfds: dataset and its config, such as "wmt14_translate/de-en"
    directory: str  # text: holds {train,dev,test}.LANGUAGE[.gz], for classification .labels[.gz];
    # tfds: its data_dir, "" for the default
    mixture: str  # corpora of train, and how often an epoch reads each: "A=1,B=3"; "" for one
    source_language: str  # also of masked language modelling and classification
    target_language: str  # also of language modelling
    train: str  # text: file stem of the split; tfds: the split or a slice; likewise dev and test
    dev: str
    test: str
    corpus_seed: int  # embedded: seed of the grammar
    train_pairs: int  # embedded: size of train; classification: pairs of two sentences each
    vocabulary_kind: VocabularyKind
    vocabulary_size: int  # pieces, the reserved ones included
    character_coverage: float  # share of the text's characters that get a piece of their own
    lowercase: bool  # pieces, and with them translations, are in lower case
    vocabulary_sentences: int  # most sentences, over all languages, that pieces are learned from
    max_length: int  # tokens per side, start and end included; longer train pairs are dropped
    cache: str  # directory where prepared data goes
    batching: Batching
    packed_length: int  # packed: tokens of a target row
    source_tokens_per_batch: int  # padding included
    target_tokens_per_batch: int  # padding included
    num_buckets: int  # bucketed: the most batch shapes, hence compilations
    length_multiple: int  # row lengths are multiples of this
    mask_rate: float  # masked_language_modelling: share of the tokens to predict

    def __post_init__(self) -> None:
        check_types("data", self)
        self._check_languages()
        self._check_numbers()
        self._check_corpus()
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
        """ "en-de" for translation, the language alone for a task that reads only one."""
        return "-".join(self.languages)

    @property
    def corpora(self) -> tuple[tuple[str, int], ...]:
        """Each corpus of a mixture, and how often an epoch reads it; () for a single corpus.

        A corpus is named as by `directory` for text files, and as by `name` for TFDS.
        """
        if not self.mixture:
            return ()
        corpora = tuple(map(_corpus_and_weight, self.mixture.split(",")))
        names = [name for name, _ in corpora]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"data.mixture names {twice!r} twice: give it one number, such as 2")
        return corpora

    def _check_languages(self) -> None:
        for name in ("source_language", "target_language"):
            language = getattr(self, name)
            if not language or "/" in language:
                raise ValueError(
                    f"data.{name}={language!r} is not a language code or file ending: write one "
                    "such as 'en'"
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
        counts = (
            "train_pairs",
            "num_buckets",
            "vocabulary_sentences",
            "packed_length",
            "length_multiple",
        )
        check_at_least("data", self, 1, (*counts, *budgets))
        check_rates("data", self, ("mask_rate",))
        is_masked = self.task == "masked_language_modelling"
        if is_masked and self.mask_rate == 0:
            raise ValueError("data.mask_rate=0.0: task='masked_language_modelling' needs above 0")
        check_at_least("data", self, 2, ("max_length",))  # one token and the end of the sentence
        # Four reserved pieces, a fifth for masks, and one piece of text.
        check_at_least("data", self, 6 if is_masked else 5, ("vocabulary_size",))
        low, high = _COVERAGE_RANGE
        if not low <= self.character_coverage <= high:
            raise ValueError(
                f"data.character_coverage={self.character_coverage} must lie between {low} and "
                f"{high}"
            )

    def _check_corpus(self) -> None:
        if self.source == "text" and not self.directory:
            raise ValueError(
                "data.directory='' is empty: source='text' needs the directory of the text files"
            )
        if self.source == "tfds" and not self.name:
            raise ValueError(
                "data.name='' is empty: source='tfds' needs a dataset such as "
                "'wmt14_translate/de-en'"
            )
        if self.source == "embedded" and self.mixture:
            raise ValueError(
                f"data.mixture={self.mixture!r} must be '' where data.source='embedded', which is "
                "one corpus"
            )
        for split in ("train", "dev", "test"):
            if self.source != "embedded" and not getattr(self, split):
                raise ValueError(f"data.{split}='' is empty: source={self.source!r} needs its name")
        if self.task == "classification":
            for key, value in (("source", "tfds"), ("batching", "packed")):
                if getattr(self, key) == value:
                    raise ValueError(
                        f"data.{key}={value!r} does not go with data.task={self.task!r}"
                    )
        _ = self.corpora


def _corpus_and_weight(term: str) -> tuple[str, int]:
    corpus, _, weight = term.strip().rpartition("=")
    if not corpus or not weight.isdecimal() or int(weight) < 1:
        raise ValueError(
            f"data.mixture: {term.strip()!r} is no corpus with a whole number of times to read it "
            "in an epoch, such as 'DIR=2'"
        )
    return corpus, int(weight)
