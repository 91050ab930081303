"""Checks for models of more than one family."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, PyTree

from t2t_jax.model import masks
from t2t_jax.model.capture import capture


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

    jacobian = jax.jit(jax.jacrev(logits_by_position))(jax.nn.one_hot(ids, num_rows))
    # T, 1 T vocab
    return np.abs(np.asarray(jacobian)).sum(axis=(1, 3)) > 0


@partial(jax.jit, static_argnums=0)
def step_by_step(model: nn.Module, variables: PyTree, target: Array, *source: Array):
    """Logits after each of `target`, B T vocab, made one position after the other from a cache.

    And what can be captured of the steps: B H T S of attention weights, B T D of hidden states. A
    model that has a `source` may have fewer rows of it: then those of a sentence are its beams.
    """
    num_rows, length = target.shape
    of_source, for_cache = (), (num_rows, length + 2)  # some room more than is needed
    if source:
        encoded = model.apply(variables, *source, deterministic=True, method="encode")
        of_source, for_cache = (encoded,), (encoded, *for_cache)

    def step(cache, last):
        (logits, cache), captured = capture(
            model, variables["params"], model.decode_step, cache, *of_source, *last
        )
        return cache, (logits[:, None], captured)

    def over_positions(steps):
        return jnp.concatenate(list(steps), axis=2 if steps.ndim == 5 else 1)

    cache = model.apply(variables, *for_cache, method="start_cache")
    _, steps = jax.lax.scan(step, cache, (target.T, jnp.arange(length)))
    return jax.tree.map(over_positions, steps)


def assert_captured_alike(of_steps: dict[str, Array], whole: dict[str, Array]) -> None:
    """Steps saw what one forward pass over all positions sees, which sees the source too."""
    assert of_steps.keys() == {path for path in whole if not path.startswith("encoder")}
    for path, expected in whole.items():
        if path in of_steps:
            # What a step attends to are all places of the cache.
            actual = of_steps[path][..., : expected.shape[-1]]
            np.testing.assert_allclose(actual, expected, atol=1e-5, err_msg=path)


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


def dropped_shapes(model: nn.Module, variables: PyTree, *ids: Array) -> list[tuple[int, ...]]:
    """The shapes of what a forward pass in training drops from, in its order."""
    dropped = []

    def record(next_function, arguments, keywords, context):
        if isinstance(context.module, nn.Dropout) and context.module.rate > 0:
            dropped.append(arguments[0].shape)
        return next_function(*arguments, **keywords)

    rngs = {"dropout": jax.random.key(0)}
    with nn.intercept_methods(record):
        jax.eval_shape(lambda: model.apply(variables, *ids, deterministic=False, rngs=rngs))
    return dropped
