"""Sentences in, translations out, whole files at a time.

Axes: B sentences, S source positions, W beams, L output positions.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from t2t_jax import hosts
from t2t_jax.cores import own_cores
from t2t_jax.data.vocabulary.vocabulary import END_ID, Vocabulary
from t2t_jax.decoding.beam_search import BeamSearch
from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.decoding.greedy import GreedySearch
from t2t_jax.decoding.length_batches import (
    LengthBatch,
    batches_by_length,
    check_lengths,
    padded_ids,
    worked_ahead,
)
from t2t_jax.decoding.stages import Rows, StagedSearch
from t2t_jax.decoding.step import DecodeStep, Hypotheses, Search, searched
from t2t_jax.made_once import made_once
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.ensemble import Ensemble, MembersAtOnce, stacked
from t2t_jax.model.fused_attention import asks_for_a_kernel
from t2t_jax.model.interface import TranslationModel
from t2t_jax.model.masks import is_token
from t2t_jax.model.products import in_bfloat16

_Decode = Callable[[PyTree, Int[Array, "B S"]], Hypotheses]


# Operations from which a search in stages is worth compiling: some ten programs, not one or two.
_WORTH_STAGES = {"cpu": 1e12}
_WORTH_STAGES_ELSEWHERE = 1e14

# On a CPU, a batch in stages has at most this many tokens: a step's data stays near its core.
_STAGED_TOKENS_ON_CPU = 4_096


class Translation(NamedTuple):
    text: str
    score: float  # log-probability in nats divided by the length penalty; 0 for an empty line


class Translator:
    """Translates sentences with one model, in batches of similar length.

    Args:
      model: of any family that translates, used through `encode`, `start_cache` and `decode_step`.
      params: of `model`.
      vocabulary: the one `model` was trained with.
      config: how to search.
      compile: compiles the search, such as `jax.jit`, with a `lower` as there. Rows are
        independent, so it may also split them over devices that each search on their own.
      row_multiple: every batch has a multiple of this many rows, for a `compile` that splits them.
      in_stages: whether sentences leave a batch as they end, see `stages.py`; only on one device.
        By default, once there is enough to translate to be worth the compilation.
    """

    def __init__(
        self,
        model: TranslationModel,
        params: PyTree,
        vocabulary: Vocabulary,
        config: DecodingConfig,
        *,
        compile: Callable[[_Decode], _Decode],
        row_multiple: int = 1,
        in_stages: bool | None = None,
    ) -> None:
        if config.weights_dtype == "bfloat16":
            params = in_bfloat16(params)
        self._params = params
        self._vocabulary = vocabulary
        self._config = config
        self._row_multiple = row_multiple
        # Of batches compiled so far, whole and in stages.
        self._shapes: tuple[set[tuple[int, int]], ...] = (set(), set())
        self._max_positions = model.config.longest_sequence
        at_once = searches_members_at_once(model.config)
        self._decoder = TranslationDecoder(model, config, vocabulary.size, at_once)
        self._decode = compile(make_decode(model, config, vocabulary.size, at_once))
        # A CPU's cores gain nothing, and hosts may have to compile each program together.
        self._compiles_ahead = jax.default_backend() != "cpu" and not hosts.are_several()
        self._compiled: set[tuple[int, int]] = set()
        side_by_side = 1
        if jax.default_backend() == "cpu":
            side_by_side = max(1, -(-config.tokens_per_batch // _STAGED_TOKENS_ON_CPU))
        self._most_staged_tokens = config.tokens_per_batch // side_by_side
        side_by_side = min(side_by_side, len(own_cores()))
        self._staged = StagedSearch(self._decoder, params, side_by_side)
        self._in_stages = in_stages if _lies_on_one_device(params) else False
        self._num_operations = 0  # so far, if all outputs have their maximal length

    def __call__(
        self,
        sentences: Sequence[str],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[list[Translation]]:
        """The `n_best` translations of each sentence, best first, in the order of the input.

        There are fewer if the search finished fewer, but never none: a line without tokens gets one
        empty translation with score 0, without the model; a sentence whose probabilities are NaN
        gets one with score -inf.

        Args:
          sentences: one string each.
          progress: called with (sentences done, sentences) now and then.

        Raises:
          ValueError: a sentence is longer than the model's learned positions.
        """
        sources = [[*ids, END_ID] for ids in self._vocabulary.encode(list(sentences))]
        check_lengths(sources, self._max_positions, counted="end token")
        translations = [[Translation("", 0.0)] for _ in sentences]
        num_done = sum(len(source) == 1 for source in sources)
        is_staged = self._is_staged(sources)
        most_tokens = self._most_staged_tokens if is_staged else self._config.tokens_per_batch
        batches = batches_by_length(
            # The end token alone is no sentence.
            [len(source) if len(source) > 1 else 0 for source in sources],
            tokens_per_batch=most_tokens // self._config.beam_size,
            row_multiple=self._row_multiple,
            max_length=self._max_positions,
            shapes=self._shapes[is_staged],
        )

        found = self._staged if is_staged else self._found_at_once
        for places, hypotheses in found(batches, sources):
            for place, translated in zip(places, self._texts(hypotheses), strict=False):
                translations[place] = translated
            num_done += len(places)
            if progress is not None:
                progress(num_done, len(sentences))
        return translations

    def _is_staged(self, sources: Sequence[Sequence[int]]) -> bool:
        if self._in_stages is not None:
            return self._in_stages
        num_params = sum(leaf.size for leaf in jax.tree.leaves(self._params))
        num_tokens = sum(self._decoder.most_tokens(len(source)) for source in sources)
        self._num_operations += 2 * num_params * num_tokens * self._config.beam_size
        worth = _WORTH_STAGES.get(jax.default_backend(), _WORTH_STAGES_ELSEWHERE)
        return self._num_operations > worth

    def _found_at_once(
        self, batches: Iterable[LengthBatch], sources: Sequence[Sequence[int]]
    ) -> Iterator[tuple[list[int], Hypotheses]]:
        """The hypotheses of all sentences, batch by batch, with their indices in `sources`."""

        def start(batch: LengthBatch) -> Hypotheses:
            return self._decode(self._params, jnp.asarray(padded_ids(batch, sources)))

        if self._compiles_ahead:
            batches = list(batches)
            self._compile({batch[1:] for batch in batches})
        for batch, hypotheses in worked_ahead(batches, start):
            yield batch.places, hypotheses

    def _compile(self, shapes: set[tuple[int, int]]) -> None:
        """Compiles the search for all of these that are new, at once."""

        def compile(shape: tuple[int, int]) -> None:
            self._decode.lower(self._params, jax.ShapeDtypeStruct(shape, jnp.int32)).compile()

        new, self._compiled = shapes - self._compiled, self._compiled | shapes
        if len(new) > 1:
            with ThreadPoolExecutor(min(len(new), len(own_cores()))) as threads:
                list(threads.map(compile, new))

    def _texts(self, hypotheses: Hypotheses) -> list[list[Translation]]:
        """The translations of every row; a meaningless one for rows without a sentence."""
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


def _lies_on_one_device(params: PyTree) -> bool:
    leaves = jax.tree.leaves(params)
    return all(not isinstance(leaf, jax.Array) or len(leaf.devices()) == 1 for leaf in leaves)


@dataclasses.dataclass(frozen=True)
class TranslationDecoder:
    """A translation model and its search, see `stages.Decoder`.

    A sentence's output has at most `max_tokens` tokens or, if that is 0, `max_extra_tokens` more
    than its source, both including the end token, and never exceeds the model's learned positions.
    """

    model: TranslationModel
    config: DecodingConfig
    vocabulary_size: int
    members_at_once: bool = False  # of an ensemble, see `MembersAtOnce`

    @property
    def search(self) -> Search:
        config = self.config
        options: dict[str, Any] = dict(
            length_penalty=config.length_penalty,
            length_penalty_formula=config.length_penalty_formula,
            vocabulary_size=self.vocabulary_size,
        )
        if config.beam_size == 1:
            return GreedySearch(**options)
        return BeamSearch(config.beam_size, config.n_best, **options)

    def most_tokens(self, source_length: int) -> int:
        """See `stages.Decoder`."""
        most = self.config.max_tokens or source_length + self.config.max_extra_tokens
        longest = self.model.config.longest_sequence
        return most if longest is None else min(most, longest)

    def start(self, params: PyTree, source_ids: Int[Array, "B S"], room: int) -> Rows:
        """See `stages.Decoder`. `source_ids` have the end token and no start token."""
        num_tokens = jnp.sum(is_token(source_ids), axis=1)
        limits = self.config.max_tokens or num_tokens + self.config.max_extra_tokens
        limits = jnp.minimum(limits, self.most_tokens(source_ids.shape[1]))
        # Once per sentence: all its beams share it.
        bound = self._bound(params)
        encoded = bound.encode(source_ids, deterministic=True)
        cache = bound.start_cache(encoded, len(source_ids) * self.config.beam_size, room)
        return Rows(encoded, self.search.start(cache, jnp.where(num_tokens > 0, limits, 0), room))

    def decode_step(self, params: PyTree, encoded: PyTree) -> DecodeStep:
        """See `stages.Decoder`."""
        if self.members_at_once:
            params = stacked(params)  # before the search's loop, not in each of its steps

        def decode_step(cache, last_ids, position):
            # Bound again: Linen requires it in the function that JAX traces, here a loop body.
            return self._bound(params).decode_step(cache, encoded, last_ids, position)

        return decode_step

    def _bound(self, params: PyTree) -> TranslationModel | MembersAtOnce:
        if self.members_at_once and isinstance(self.model, Ensemble):
            return MembersAtOnce(self.model, params)
        return self.model.bind({"params": params})


def searches_members_at_once(config: TransformerConfig) -> bool:
    """Whether this process searches with the members of an ensemble as one computation."""
    # cuDNN's attention takes no axis of members.
    return jax.default_backend() == "gpu" and not asks_for_a_kernel(config)


@made_once
def make_decode(
    model: TranslationModel,
    config: DecodingConfig,
    vocabulary_size: int,
    members_at_once: bool = False,
) -> _Decode:
    """Builds `decode(params, source_ids)`, the whole search over a batch, ready to compile.

    `source_ids` are padded, with the end token, without a start token; a row of only padding has no
    hypotheses.
    """
    decoder = TranslationDecoder(model, config, vocabulary_size, members_at_once)

    def decode(params: PyTree, source_ids: Int[Array, "B S"]) -> Hypotheses:
        most = decoder.most_tokens(source_ids.shape[1])
        encoded, state = decoder.start(params, source_ids, most)
        decode_step = decoder.decode_step(params, encoded)
        return decoder.search.found(searched(decoder.search, decode_step, state, 0, most))

    return decode
