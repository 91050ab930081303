"""A recurrent toy model whose every choice depends on all tokens before it, in JAX and in NumPy."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from t2t_jax.data.vocabulary.vocabulary import END_ID, START_ID
from t2t_jax.decoding.beam_search import BeamSearch
from t2t_jax.decoding.greedy import GreedySearch
from t2t_jax.decoding.step import searched


class Toy(NamedTuple):
    embedding: np.ndarray  # vocab, state
    recurrence: np.ndarray  # state, state
    output: np.ndarray  # state, vocab
    starts: np.ndarray  # B, state: what makes the sentences differ

    def cache(self, beam_size: int):
        """The states of all beams, with an axis that no beam search has to know of."""
        return {"state": jnp.repeat(jnp.asarray(self.starts)[:, None], beam_size, axis=0)}

    def decode_step(self, cache, last_ids, position):
        state = jnp.tanh(
            cache["state"][:, 0] @ self.recurrence + jnp.asarray(self.embedding)[last_ids]
        )
        return state @ self.output, {"state": state[:, None]}

    def log_probs(self, sentence: int, ids: tuple[int, ...]) -> np.ndarray:
        """Log-probabilities of what may follow `ids`, from scratch."""
        state = self.starts[sentence]
        for token in (START_ID, *ids):
            state = np.tanh(state @ self.recurrence + self.embedding[token])
        logits = state @ self.output
        return logits - np.log(np.sum(np.exp(logits)))


def make_toy(seed: int, *, num_sentences: int = 3, vocab: int = 7, end_bias: float = 0.0) -> Toy:
    rng = np.random.default_rng(seed)
    size = 5
    embedding = rng.normal(size=(vocab, size))
    recurrence = rng.normal(size=(size, size))
    output = rng.normal(size=(size, vocab))
    # A state that stays near 1 carries the bias to the logits.
    embedding[:, 0], recurrence[:, 0], output[0] = 3.0, 0.0, 0.0
    output[0, END_ID] = end_bias
    starts = rng.normal(size=(num_sentences, size))
    return Toy(
        *(np.asarray(array, np.float32) for array in (embedding, recurrence, output, starts))
    )


def tokens(ids) -> list[int]:
    """Ids without padding."""
    return [int(token) for token in np.asarray(ids) if token]


def num_steps(search, toy: Toy, limits, **options) -> int:
    """How often `search` asks the toy."""
    calls = []

    def decode_step(cache, last_ids, position):
        jax.debug.callback(calls.append, position)
        return toy.decode_step(cache, last_ids, position)

    cache = toy.cache(options.get("beam_size", 1))
    jax.jit(lambda limits: search(decode_step, cache, limits, **options))(jnp.array(limits))
    jax.effects_barrier()
    return len(calls)


def greedy_search(decode_step, cache, limits, *, max_length, **options):
    """A whole `GreedySearch`; higher `limits` are reduced to `max_length`."""
    return _whole(GreedySearch(**options), decode_step, cache, limits, max_length)


def beam_search(decode_step, cache, limits, *, max_length, beam_size, n_best=None, **options):
    """The same of a `BeamSearch`, by default with all hypotheses."""
    search = BeamSearch(beam_size, n_best or beam_size, **options)
    return _whole(search, decode_step, cache, limits, max_length)


def _whole(search, decode_step, cache, limits, max_length):
    state = search.start(cache, jnp.minimum(limits, max_length), max_length)
    return search.found(searched(search, decode_step, state, 0, max_length))
