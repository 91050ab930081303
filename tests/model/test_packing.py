"""Several sequences in one row: none sees the others, with any kind of positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.masks import Packing, segment_mask
from t2t_jax.model.positions import make_positions
from tests.model.configs import POSITION_CHANGES, logits_of, model_and_variables, some_ids
from tests.model.probes import assert_packed_equals_alone, each_alone, packed

LENGTH = 8


def sequences(lengths, seed):
    ids = np.random.default_rng(seed).integers(4, 11, 100)
    return [[ids[10 * row + i :][:n] for i, n in enumerate(of)] for row, of in enumerate(lengths)]


SOURCES = sequences([(3, 4), (1, 2, 5)], seed=0)
TARGETS = sequences([(5, 2), (3, 1, 2)], seed=1)
every_kind = pytest.mark.parametrize("changes", POSITION_CHANGES, ids=lambda c: c["positions"])


def test_a_position_sees_its_own_sequence_and_padding_sees_nothing():
    mask = segment_mask(jnp.asarray([[1, 1, 2, 0]]), jnp.asarray([[1, 2, 2, 2, 0]]))
    expected = [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0]]
    np.testing.assert_array_equal(mask[0], np.asarray(expected, bool))


@every_kind
def test_packed_sentence_pairs_are_translated_as_if_alone(changes):
    model, variables = model_and_variables(**changes, num_self_attentions=2)
    (source, source_packing), (target, target_packing) = (
        packed(SOURCES, LENGTH),
        packed(TARGETS, LENGTH),
    )
    in_rows = logits_of(model, variables, source, target, (source_packing, target_packing))
    alone = model.apply(
        variables, each_alone(SOURCES, LENGTH), each_alone(TARGETS, LENGTH), deterministic=True
    )
    assert np.isfinite(in_rows).all()  # padding's too, which sees nothing
    assert_packed_equals_alone(in_rows, alone, TARGETS)


@every_kind
@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_packed_texts_are_read_as_if_alone(family, changes):
    model, variables = model_and_variables(family=family, **changes)
    ids, packing = packed(SOURCES, LENGTH)
    in_rows = logits_of(model, variables, ids, ids, (packing, packing))
    alone = model.apply(variables, each_alone(SOURCES, LENGTH), deterministic=True)
    assert_packed_equals_alone(in_rows, alone, SOURCES)


@every_kind
def test_only_positions_count_not_columns(changes):
    """Columns in another order, each with its id, segment and position, say the same."""
    model, variables = model_and_variables(family="encoder_only", **changes)
    ids, packing = packed(SOURCES, LENGTH)
    order = jnp.asarray([5, 2, 7, 0, 3, 6, 1, 4])
    shuffled = Packing(packing.segments[:, order], packing.positions[:, order])
    expected = logits_of(model, variables, ids, ids, (packing, packing))[:, order]
    ids = ids[:, order]
    actual = logits_of(model, variables, ids, ids, (shuffled, shuffled))
    is_token = np.asarray(shuffled.segments) > 0
    np.testing.assert_allclose(actual[is_token], expected[is_token], atol=1e-5)


@every_kind
@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_relative_positions_do_not_know_where_a_text_begins(family, changes):
    model, variables = model_and_variables(family=family, **changes)
    ids = some_ids(2, LENGTH)

    def logits(shift):
        positions = jnp.broadcast_to(jnp.arange(LENGTH) + shift, ids.shape)
        packing = Packing(jnp.ones_like(ids), positions)
        return logits_of(model, variables, ids, ids, (packing, packing))

    is_same = np.abs(logits(0) - logits(5)).max() < 1e-4
    encoding, places = make_positions(model.config, is_causal=False), jnp.arange(LENGTH)[None]
    given, _ = encoding.init_with_output(jax.random.key(0), places, places)
    assert is_same == (given.vectors is None)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_padding_that_sees_nothing_leaves_gradients_finite(dtype):
    model, variables = model_and_variables(positions="relative", dtype=dtype)
    ids, packing = packed([[SOURCES[0][0]], []], LENGTH)  # five paddings, and a row of nothing else

    @jax.jit
    @jax.grad
    def gradient(variables):
        return logits_of(model, variables, ids, ids, (packing, packing)).sum()

    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(variables)))
