"""The count of a step's products against counts by hand and the compiler's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.training import operations
from t2t_jax.training.loss import make_loss_fn
from t2t_jax.training.operations import step_operations
from tests.model.configs import POSITION_CHANGES, small

# Sizes beside which what is no product is small.
WIDE = dict(
    vocabulary_rows=512, d_model=128, d_ff=512, num_heads=2, d_k=64, d_v=64, num_encoder_layers=2
)


def by_hand(config, rows, source, target):
    """Three times the forward products of an encoder-decoder: forward, and two gradients."""
    heads, d = config.num_heads, config.d_model
    projections = 2 * d * heads * (2 * config.d_k + 2 * config.d_v)  # all four, a token
    of_pair = 2 * heads * (config.d_k + config.d_v)  # a query and a key
    feed_forward = 4 * d * config.d_ff
    of_query = 2 * d * heads * (config.d_k + config.d_v)
    encoder = source * (projections + feed_forward) + source**2 * of_pair
    decoder = target * (projections + of_query + feed_forward)
    decoder += source * (projections - of_query)  # keys and values of the source
    decoder += target * (target + source) * of_pair
    logits = target * 2 * d * config.vocabulary_rows
    layers = config.num_encoder_layers * encoder + config.num_decoder_layers * decoder
    return 3 * rows * (layers + logits)


@pytest.mark.parametrize(
    "changes",
    [{}, WIDE, {"attention_biases": False, "feed_forward_biases": False}, *POSITION_CHANGES],
    ids=str,
)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 5)], ids=str)
def test_an_encoder_decoder_is_what_one_counts_by_hand(changes, shape):
    config = small(**changes)
    assert step_operations(config).of(*shape) == by_hand(config, *shape)


def test_what_a_gpu_sorts_is_no_product(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    config = small(positions="relative", norm="pre")
    step_operations.cache_clear()  # another test may have asked for the same
    assert step_operations(config).of(3, 7, 5) == by_hand(config, 3, 7, 5)
    step_operations.cache_clear()


def compiled(config, rows, source, target):
    """What XLA says of all operations of the step."""
    model = make_model(config)
    sides = [jax.ShapeDtypeStruct((rows, length), jnp.int32) for length in (source, target)]
    gradients = jax.jit(jax.grad(make_loss_fn(model, 0.1), has_aux=True))
    key = jax.eval_shape(lambda: jax.random.key(0))
    lowered = gradients.lower(parameter_shapes(model), Batch(*sides), key)
    return lowered.compile().cost_analysis()["flops"]


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (4, 13, 17)),
        ({"family": "decoder_only"}, (4, 0, 17)),
        ({"family": "encoder_only"}, (4, 13, 13)),
        ({"family": "encoder_only", "pooling": "mean"}, (4, 13, 1)),
    ],
    ids=str,
)
def test_the_compiler_counts_the_same_and_a_little_that_is_no_product(changes, shape):
    config = small(**WIDE, **changes)
    ours = step_operations(config).of(*shape)
    assert ours < compiled(config, *shape) < 1.04 * ours


def test_the_compiler_counts_the_same_for_more_of_the_vocabulary():
    shape = (4, 13, 17)
    some, more = small(**WIDE), small(**WIDE | {"vocabulary_rows": 1024})
    difference = step_operations(more).of(*shape) - step_operations(some).of(*shape)
    assert difference == 3 * 2 * 4 * 17 * 128 * 512
    assert compiled(more, *shape) - compiled(some, *shape) == pytest.approx(difference, rel=0.06)


def test_a_loop_counts_as_often_as_it_runs():
    config = small(family="recurrent")
    one, two, three = (float(step_operations(config).of(2, length, 3)) for length in (1, 2, 3))
    assert 0 < two - one == three - two
    of_cell = 3 * 2 * 2 * config.d_model * config.d_model  # at the least, in each direction
    assert two - one > of_cell


def test_an_ensemble_counts_as_often_as_it_has_members():
    one, three = (step_operations(small(ensemble_size=size)).of(2, 5, 3) for size in (1, 3))
    assert three == 3 * one


def test_many_shapes_at_once_are_each_by_itself():
    found = step_operations(small())
    source, target = np.array([3, 5]), np.array([4, 1])
    assert found.of(1, source, target).tolist() == [found.of(1, 3, 4), found.of(1, 5, 1)]


@pytest.mark.parametrize("wrong", [2 * 1_000_000_021 - 1, 1_000_000_021 // 100, 5_000_000])
def test_what_does_not_grow_in_proportion_is_refused(wrong):
    with pytest.raises(ValueError, match=f"has a size of {wrong}, where a batch has"):
        operations._factored([8, wrong])
