"""Prompts in, texts out, with the language model's probabilities token by token.

Axes: B rows, P prompt positions, L positions, M best next tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID, Vocabulary
from t2t_jax.decoding.continuation import Continuations, Prompts, continue_prompts
from t2t_jax.decoding.length_batches import (
    LengthBatch,
    batches_by_length,
    padded_ids,
    worked_ahead,
)
from t2t_jax.decoding.sampling import Sampling, row_keys
from t2t_jax.made_once import made_once
from t2t_jax.model.language_model import LanguageModel

_Generate = Callable[[PyTree, Prompts], Continuations]


class Candidate(NamedTuple):
    """A possible next token, with the model's numbers before temperature and cuts."""

    id: int
    piece: str  # as the vocabulary writes it
    logit: float
    probability: float  # among all rows of the model's vocabulary


class Token(NamedTuple):
    """One step: the chosen token, and the model's likeliest."""

    chosen: Candidate
    best: list[Candidate]  # likeliest first


class Generation(NamedTuple):
    """A prompt and its continuation by the model."""

    text: str  # the prompt, as the vocabulary writes it back, and its continuation
    tokens: list[Token]  # of the continuation, including the end token if reached

    @property
    def has_ended(self) -> bool:
        """Whether the model reached the end token; if not, it used all allowed tokens."""
        return self.tokens[-1].chosen.id == END_ID


class Generator:
    """Continues prompts with one model, in batches of similar length.

    Args:
      model: used through `start_cache` and `decode_step`.
      params: of `model`.
      vocabulary: the one `model` was trained with.
      max_new_tokens: most tokens after a prompt, the end token included.
      sampling: how to choose a token.
      top_n: best next tokens to return for every token.
      tokens_per_batch: longest row times rows at once, padding included.
      compile: compiles the loop, such as `jax.jit`. Rows are independent, so it may also split them
        over devices.
      row_multiple: every batch has a multiple of this many rows, for a `compile` that splits them.
      opens_with_start: whether the model reads the start token before a prompt, as ours are trained
        to; GPT-2 is not.

    Raises:
      ValueError: a number is too small or too large.
    """

    def __init__(
        self,
        model: LanguageModel,
        params: PyTree,
        vocabulary: Vocabulary,
        *,
        max_new_tokens: int,
        sampling: Sampling,
        compile: Callable[[_Generate], _Generate],
        top_n: int = 0,
        tokens_per_batch: int = 8_192,
        row_multiple: int = 1,
        opens_with_start: bool = True,
    ) -> None:
        _check_at_least(1, max_new_tokens=max_new_tokens)
        _check_at_least(0, top_n=top_n)
        # Neither padding nor the start token ever comes next.
        if top_n > vocabulary.size - 2:
            raise ValueError(
                f"top_n={top_n} must be at most {vocabulary.size - 2}, all that may come next"
            )
        self._params = params
        self._vocabulary = vocabulary
        self._max_new_tokens = max_new_tokens
        self._sampling = sampling
        self._tokens_per_batch = tokens_per_batch
        self._row_multiple = row_multiple
        self._shapes: set[tuple[int, int]] = set()  # of batches compiled so far
        self._first_ids = [START_ID] if opens_with_start else []
        self._max_positions = model.config.longest_sequence
        self._generate = compile(
            make_generate(
                model,
                max_new_tokens=max_new_tokens,
                sampling=sampling,
                top_n=top_n,
                vocabulary_size=vocabulary.size,
            )
        )

    def __call__(
        self,
        prompts: Sequence[str],
        *,
        num_samples: int = 1,
        seed: int = 0,
        first: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[list[Generation]]:
        """The `num_samples` continuations of each prompt, in the order of the input.

        An empty prompt generates a text from its very beginning. A text depends only on its prompt,
        the seed, the prompt's index in the input and the sample's number.

        Args:
          prompts: one string each.
          num_samples: continuations of each prompt.
          seed: of all choices.
          first: the first prompt's index in the input, if this is a part of one.
          progress: called with (continuations done, continuations) now and then.

        Raises:
          ValueError: a prompt and its continuation are longer than the model's learned positions,
            there is nothing to begin with, the model diverged, or greedy choice would repeat the
            same sample.
        """
        _check_at_least(1, num_samples=num_samples)
        if not 0 <= seed < 2**31:
            raise ValueError(f"seed={seed} must be a whole number from 0 to 2^31 - 1")
        if num_samples > 1 and self._sampling.temperature == 0:
            raise ValueError(
                f"num_samples={num_samples} with temperature=0, which always chooses the likeliest "
                "token, would be one text several times: set a temperature above 0, such as 1"
            )
        prompt_ids = [self._first_ids + ids for ids in self._vocabulary.encode(list(prompts))]
        self._check_lengths(prompt_ids, first)
        # One row per sample, a prompt's samples adjacent.
        rows = [ids for ids in prompt_ids for _ in range(num_samples)]
        generations: list[Generation | None] = [None] * len(rows)
        num_done = 0
        for batch, found in self._continued(rows, num_samples, seed, first):
            found = jax.tree.map(np.asarray, found)
            for row, place in enumerate(batch.places):
                found_of_row = jax.tree.map(lambda leaf, row=row: leaf[row], found)
                generations[place] = self._generation(rows[place], found_of_row)
            num_done += len(batch.places)
            if progress is not None:
                progress(num_done, len(rows))
        done = iter(generation for generation in generations if generation is not None)
        return [[next(done) for _ in range(num_samples)] for _ in prompts]

    def _continued(
        self, rows: Sequence[Sequence[int]], num_samples: int, seed: int, first: int
    ) -> Iterator[tuple[LengthBatch, Continuations]]:
        """Every batch with its continuations, while later batches are already running."""

        def start(batch: LengthBatch) -> Continuations:
            num_tokens, places = np.zeros((2, batch.num_rows), np.int32)
            num_texts = len(batch.places)
            num_tokens[:num_texts] = [lengths[place] for place in batch.places]
            places[:num_texts] = batch.places
            prompt, sample = map(jnp.asarray, np.divmod(places, np.int32(num_samples)))
            keys = row_keys(seed, first + prompt, sample)
            ids = jnp.asarray(padded_ids(batch, rows))
            return self._generate(self._params, Prompts(ids, jnp.asarray(num_tokens), keys))

        lengths = [len(ids) for ids in rows]
        batches = batches_by_length(
            lengths,
            tokens_per_batch=self._tokens_per_batch,
            extra_length=self._max_new_tokens,
            row_multiple=self._row_multiple,
            max_length=self._max_positions,
            shapes=self._shapes,
        )
        return worked_ahead(batches, start)

    def _check_lengths(self, prompt_ids: Sequence[Sequence[int]], first: int) -> None:
        for number, ids in enumerate(prompt_ids, start=first + 1):
            # The last generated token is never read.
            needed = len(ids) + self._max_new_tokens - 1
            if self._max_positions is not None and needed > self._max_positions:
                raise ValueError(
                    f"prompt {number} has {len(ids)} tokens and max_new_tokens is "
                    f"{self._max_new_tokens}: {needed} positions, but the model has learned only "
                    f"max_positions={self._max_positions}"
                )

    def _generation(self, prompt_ids: list[int], found: Continuations) -> Generation:
        """The text of one row; its arrays lack the first axis."""
        first = len(prompt_ids) - 1
        num_new = int(np.sum(found.ids[first:] != PAD_ID))
        new = jax.tree.map(lambda leaf: leaf[first : first + num_new].tolist(), found)
        # After a step of NaN comes padding, as after the end.
        if num_new == 0 or not np.isfinite(found.logits[first:]).all():
            raise ValueError(
                "the model's probabilities are NaN: it diverged in training and can write nothing"
            )
        tokens = [
            Token(
                self._candidate(*chosen),
                [self._candidate(*candidate) for candidate in zip(*best, strict=True)],
            )
            for *chosen, best in zip(
                new.ids,
                new.logits,
                new.probs,
                zip(new.best_ids, new.best_logits, new.best_probs, strict=True),
                strict=True,
            )
        ]
        # An end token within a prompt (GPT-2 has no other start) does not end the text.
        prompt = [token_id for token_id in prompt_ids if token_id != END_ID]
        (text,) = self._vocabulary.decode([[*prompt, *new.ids]])
        return Generation(text, tokens)

    def _candidate(self, token_id: int, logit: float, probability: float) -> Candidate:
        return Candidate(token_id, self._vocabulary.piece(token_id), logit, probability)


@made_once
def make_generate(
    model: LanguageModel,
    *,
    max_new_tokens: int,
    sampling: Sampling,
    top_n: int,
    vocabulary_size: int,
) -> _Generate:
    """Builds `generate(params, prompts)`, the loop over a batch of prompts, ready to compile."""

    def generate(params: PyTree, prompts: Prompts) -> Continuations:
        num_rows, prompt_length = prompts.ids.shape
        max_length = prompt_length + max_new_tokens - 1
        if (longest := model.config.longest_sequence) is not None:
            max_length = min(max_length, longest)  # padding in prompts needs no positions
        cache = model.bind({"params": params}).start_cache(num_rows, max_length)

        def decode_step(cache, last_ids, position):
            return model.bind({"params": params}).decode_step(cache, last_ids, position)

        return continue_prompts(
            decode_step,
            cache,
            prompts,
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            top_n=top_n,
            vocabulary_size=vocabulary_size,
        )

    return generate


def _check_at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{name}={value} must be at least {least}")
