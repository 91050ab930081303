"""Sinusoids against the formulas of the paper and of tensor2tensor, position by position."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.positions import (
    PositionalEncoding,
    check_length,
    concatenated_sinusoids,
    sinusoids,
    tensor2tensor_sinusoids,
)
from tests.model.configs import small

T, D = 7, 10


def table(entry):
    return np.array([[entry(pos, column) for column in range(D)] for pos in range(T)])


def test_sinusoids_alternate_sine_and_cosine():
    def entry(pos, column):
        angle = pos / 10000 ** (2 * (column // 2) / D)
        return math.sin(angle) if column % 2 == 0 else math.cos(angle)

    np.testing.assert_allclose(sinusoids(jnp.arange(T), D), table(entry), atol=1e-6)


def test_concatenated_sinusoids_have_sines_left_and_cosines_right():
    def entry(pos, column):
        angle = pos / 10000 ** (2 * (column % (D // 2)) / D)
        return math.sin(angle) if column < D // 2 else math.cos(angle)

    np.testing.assert_allclose(concatenated_sinusoids(jnp.arange(T), D), table(entry), atol=1e-6)


def test_tensor2tensor_sinusoids_end_at_a_wavelength_of_10000():
    def entry(pos, column):
        angle = pos * math.exp(-math.log(10000) * (column % (D // 2)) / (D // 2 - 1))
        return math.sin(angle) if column < D // 2 else math.cos(angle)

    np.testing.assert_allclose(tensor2tensor_sinusoids(jnp.arange(T), D), table(entry), atol=1e-6)


def test_a_shift_is_the_same_rotation_everywhere():
    """Section 3.5: PE[pos + k] is a linear function of PE[pos], whatever pos is."""
    shift = 3
    encoding = np.asarray(sinusoids(jnp.arange(20), D)).reshape(20, D // 2, 2)
    angles = shift / 10000 ** (2 * np.arange(D // 2) / D)
    sin, cos = encoding[:-shift, :, 0], encoding[:-shift, :, 1]
    shifted = np.stack(
        [sin * np.cos(angles) + cos * np.sin(angles), cos * np.cos(angles) - sin * np.sin(angles)],
        axis=-1,
    )
    np.testing.assert_allclose(encoding[shift:], shifted, atol=1e-5)


@pytest.mark.parametrize("kind", ["none", "rotary", "relative", "alibi"])
def test_positions_of_self_attention_and_none_add_nothing_to_the_embedding(kind):
    module = PositionalEncoding(small(positions=kind, d_k=4))
    assert not np.any(module.apply({}, jnp.arange(T)[None]))


@pytest.mark.parametrize(
    "kind", ["sinusoidal", "sinusoidal_concatenated", "sinusoidal_tensor2tensor"]
)
def test_sinusoids_begin_where_the_config_says(kind):
    from_0, from_2 = (
        PositionalEncoding(small(positions=kind, first_position=first)).apply({}, positions[None])
        for first, positions in ((0, jnp.arange(T) + 2), (2, jnp.arange(T)))
    )
    np.testing.assert_array_equal(from_2, from_0)


def test_positions_need_not_count_up():
    positions = jnp.asarray([[0, 1, 2, 0, 1], [0, 0, 1, 2, 3]])
    packed = sinusoids(positions, D)
    np.testing.assert_array_equal(packed, sinusoids(jnp.arange(T), D)[positions])


def test_a_learned_table_is_learned_and_bounded():
    config = small(positions="learned", max_positions=T)
    variables = PositionalEncoding(config).init(jax.random.key(0), jnp.arange(2)[None])
    (leaf,) = jax.tree.leaves(variables)
    assert leaf.shape == (T, config.d_model)
    check_length(T, config)
    with pytest.raises(ValueError, match=r"a sequence of 8 tokens .* model\.max_positions=7"):
        check_length(T + 1, config)


def test_learned_positions_start_at_the_scale_of_embeddings():
    config = small(positions="learned", max_positions=500, d_model=64)
    vectors, _ = PositionalEncoding(config).init_with_output(
        jax.random.key(0), jnp.arange(500)[None]
    )
    assert np.std(vectors) == pytest.approx(1, rel=0.05)


def test_learned_positions_begin_with_their_first_row_wherever_sinusoids_begin():
    positions = jnp.arange(T)[None]
    module = PositionalEncoding(small(positions="learned"))
    variables = module.init(jax.random.key(0), positions)
    from_2 = PositionalEncoding(small(positions="learned", first_position=2))
    np.testing.assert_array_equal(
        from_2.apply(variables, positions), module.apply(variables, positions)
    )
