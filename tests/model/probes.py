"""Questions that are asked of models of more than one family."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array

from t2t_jax.model import masks


def reached_positions(logits_of: Callable[[], Array], ids: Array, num_rows: int) -> np.ndarray:
    """[t, s]: whether the gradient of position t's logits reaches the embedding of `ids[0, s]`.

    `logits_of` runs a model on the one row `ids` and gives its logits, 1 T vocab.
    """

    def logits_by_position(one_hot):
        def from_one_hot(next_function, arguments, keywords, context):
            is_read = context.module.name == "embedding" and context.method_name == "__call__"
            if is_read and arguments[0] is ids:
                return one_hot @ context.module.table
            return next_function(*arguments, **keywords)

        with nn.intercept_methods(from_one_hot):
            return logits_of()[0].sum(-1)

    jacobian = jax.jacrev(logits_by_position)(jax.nn.one_hot(ids, num_rows))  # T, 1 T vocab
    return np.abs(np.asarray(jacobian)).sum(axis=(1, 3)) > 0


def packed(sequences: list[list[np.ndarray]], length: int) -> tuple[Array, masks.Packing]:
    """Rows of `length` ids, each with its sequences one after the other, and where each is."""
    ids = np.full((len(sequences), length), masks.PAD_ID, np.int32)
    segments, positions = np.zeros_like(ids), np.zeros_like(ids)
    for row, of_row in enumerate(sequences):
        start = 0
        for number, sequence in enumerate(of_row, start=1):
            place = slice(start, start + len(sequence))
            ids[row, place], segments[row, place] = sequence, number
            positions[row, place] = np.arange(len(sequence))
            start = place.stop
    return jnp.asarray(ids), masks.Packing(jnp.asarray(segments), jnp.asarray(positions))


def each_alone(sequences: list[list[np.ndarray]], length: int) -> Array:
    """One row of `length` ids for each sequence."""
    ids = [np.pad(one, (0, length - len(one))) for of_row in sequences for one in of_row]
    return jnp.asarray(ids, jnp.int32)


def assert_packed_equals_alone(
    in_rows: Array, alone: Array, sequences: list[list[np.ndarray]], tolerance: float = 1e-5
) -> None:
    """What a model gives for packed rows is what it gives for each sequence by itself."""
    expected = iter(np.asarray(alone))
    for row, of_row in zip(np.asarray(in_rows), sequences, strict=True):
        start = 0
        for sequence in of_row:
            stop = start + len(sequence)
            np.testing.assert_allclose(
                row[start:stop], next(expected)[: len(sequence)], atol=tolerance
            )
            start = stop
