"""Sentences in, translations out, whole files at a time.

Axes: B sentences, S source positions, W beams, L output positions.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from t2t_jax.data.vocabulary import END_ID, PAD_ID, Vocabulary
from t2t_jax.decoding.beam_search import beam_search
from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.decoding.greedy import greedy_search
from t2t_jax.decoding.step import Hypotheses
from t2t_jax.model.transformer import Transformer

# Source lengths are padded to powers of two from here on. Compiling the search for one more shape
# takes as long as translating hundreds of sentences with a small model, and padding the source
# costs little, because the work lies in the steps of the decoder.
_SHORTEST_SOURCE = 16

# So that the device is at work while the host makes text of what it found before.
_BATCHES_IN_WORK = 2

_Decode = Callable[[PyTree, Int[Array, "B S"]], Hypotheses]


class Translation(NamedTuple):
    text: str
    score: float  # log-probability in nats over the length penalty; 0 for an empty line


class _SourceBatch(NamedTuple):
    places: list[int]  # of the sentences in the input
    num_rows: int  # at least len(places); the rest is padding
    source_length: int


class Translator:
    """Translates sentences with one model, in batches of similar length.

    Args:
      model: used through `encode`, `project_memory`, `empty_cache` and `decode_step`.
      params: of `model`.
      vocabulary: the one `model` was trained with.
      config: how to search.
      compile: what compiles the search, such as `jax.jit`. The rows of a batch know nothing of
        each other, so it may also cut them over devices that each search on their own.
      row_multiple: every batch has a multiple of so many rows, for a `compile` that cuts them.
    """

    def __init__(
        self,
        model: Transformer,
        params: PyTree,
        vocabulary: Vocabulary,
        config: DecodingConfig,
        *,
        compile: Callable[[_Decode], _Decode],
        row_multiple: int = 1,
    ) -> None:
        self._params = params
        self._vocabulary = vocabulary
        self._config = config
        self._row_multiple = row_multiple
        has_table = model.config.positions == "learned"
        self._max_positions = model.config.max_positions if has_table else None
        self._decode = compile(make_decode(model, config, vocabulary.size, self._max_positions))

    def __call__(
        self,
        sentences: Sequence[str],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[list[Translation]]:
        """The `n_best` translations of each sentence, best first, in the order of the input.

        There are fewer where the search finished fewer, but never none: a line without tokens
        has one empty translation of score 0, which the model is not asked for, and a sentence of
        which the model's probabilities are no numbers has one of score -inf.

        Args:
          sentences: one string each.
          progress: called with (sentences done, sentences) now and then.

        Raises:
          ValueError: a sentence is longer than the model has learned positions for.
        """
        sources = [[*ids, END_ID] for ids in self._vocabulary.encode(list(sentences))]
        self._check_lengths(sources)
        translations = [[Translation("", 0.0)] for _ in sentences]
        num_done = sum(len(source) == 1 for source in sources)
        for batch, hypotheses in self._decoded(sources):
            for place, translated in zip(batch.places, self._texts(hypotheses), strict=False):
                translations[place] = translated
            num_done += len(batch.places)
            if progress is not None:
                progress(num_done, len(sentences))
        return translations

    def _decoded(
        self, sources: Sequence[Sequence[int]]
    ) -> Iterator[tuple[_SourceBatch, Hypotheses]]:
        """Every batch with its hypotheses, while the batches after it are already in work."""
        in_work: deque[tuple[_SourceBatch, Hypotheses]] = deque()
        for batch in self._batches(sources):
            source_ids = np.full((batch.num_rows, batch.source_length), PAD_ID, np.int32)
            for row, place in enumerate(batch.places):
                source_ids[row, : len(sources[place])] = sources[place]
            in_work.append((batch, self._decode(self._params, jnp.asarray(source_ids))))
            if len(in_work) == _BATCHES_IN_WORK:
                yield in_work.popleft()
        yield from in_work

    def _check_lengths(self, sources: Sequence[Sequence[int]]) -> None:
        if self._max_positions is None:
            return
        for number, source in enumerate(sources, start=1):
            if len(source) > self._max_positions:
                raise ValueError(
                    f"sentence {number} has {len(source)} tokens with its end token, but the "
                    f"model has learned only max_positions={self._max_positions} positions: "
                    "shorten or split it"
                )

    def _batches(self, sources: Sequence[Sequence[int]]) -> Iterator[_SourceBatch]:
        """Every sentence with tokens in one batch, those of one shape together, longest first.

        The longest first, because if one does not fit into memory that shows at once.
        """
        places_by_length: dict[int, list[int]] = {}
        for place in sorted(range(len(sources)), key=lambda place: -len(sources[place])):
            if len(sources[place]) > 1:
                length = _padded_length(len(sources[place]), self._max_positions)
                places_by_length.setdefault(length, []).append(place)
        for length, places in places_by_length.items():
            num_rows = max(1, self._config.tokens_per_batch // (length * self._config.beam_size))
            # A few sentences do not pay for a full batch, nor for a compilation per number of them.
            num_rows = min(num_rows, _power_of_two(len(places)))
            num_rows = -(-num_rows // self._row_multiple) * self._row_multiple
            for start in range(0, len(places), num_rows):
                yield _SourceBatch(places[start : start + num_rows], num_rows, length)

    def _texts(self, hypotheses: Hypotheses) -> list[list[Translation]]:
        """The translations of every row; for rows that hold no sentence one that means nothing."""
        num_rows, num_hypotheses, max_length = hypotheses.ids.shape
        texts = iter(
            self._vocabulary.decode(np.asarray(hypotheses.ids).reshape(-1, max_length).tolist())
        )
        translations = []
        for scores in np.asarray(hypotheses.scores).tolist():
            row = [Translation(next(texts), score) for score in scores]
            found = [translation for translation in row if translation.score > -np.inf]
            translations.append(found or [Translation("", -np.inf)])
        return translations


def make_decode(
    model: Transformer,
    config: DecodingConfig,
    vocabulary_size: int,
    max_positions: int | None = None,
) -> _Decode:
    """Builds `decode(params, source_ids)`, the search over a batch of sources, to be compiled.

    `source_ids` are padded, with the end token, without a start token; a row that is all padding
    has no hypotheses. A sentence's output has at most `max_extra_tokens` more tokens than its
    source, the end token counted in both, and none beyond `max_positions`.
    """

    def decode(params: PyTree, source_ids: Int[Array, "B S"]) -> Hypotheses:
        def apply(method: Callable, *arguments, **options):
            return model.apply({"params": params}, *arguments, method=method, **options)

        num_sentences, source_length = source_ids.shape
        max_length = source_length + config.max_extra_tokens
        if max_positions is not None:
            max_length = min(max_length, max_positions)
        source_mask = source_ids != PAD_ID
        num_tokens = jnp.sum(source_mask, axis=1)
        limits = jnp.where(num_tokens > 0, num_tokens + config.max_extra_tokens, 0)

        # Once per sentence: all its beams look at the same keys and values.
        memory_kv = apply(model.project_memory, apply(model.encode, source_ids, deterministic=True))
        cache = apply(model.empty_cache, num_sentences * config.beam_size, max_length)

        def decode_step(cache, last_ids, position):
            return apply(model.decode_step, cache, memory_kv, source_mask, last_ids, position)

        if config.beam_size == 1:
            return greedy_search(
                decode_step,
                cache,
                limits,
                max_length=max_length,
                length_penalty=config.length_penalty,
                vocabulary_size=vocabulary_size,
            )
        return beam_search(
            decode_step,
            cache,
            limits,
            beam_size=config.beam_size,
            max_length=max_length,
            length_penalty=config.length_penalty,
            n_best=config.n_best,
            vocabulary_size=vocabulary_size,
        )

    return decode


def _padded_length(num_tokens: int, max_positions: int | None) -> int:
    length = max(_SHORTEST_SOURCE, _power_of_two(num_tokens))
    return length if max_positions is None else min(length, max_positions)


def _power_of_two(number: int) -> int:
    """The smallest one that is not below `number`."""
    return 1 << (number - 1).bit_length()
