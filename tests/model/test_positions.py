"""Each kind of positions against loops written like its paper's formula, and where it enters."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.config import BIASED_POSITIONS
from t2t_jax.model.positions import (
    RelativeBias,
    alibi_bias,
    alibi_slopes,
    check_length,
    concatenated_sinusoids,
    make_positions,
    paper_angles,
    relative_bucket,
    rotate,
    sinusoids,
    tensor2tensor_sinusoids,
)
from tests.model.configs import POSITIONS, model_and_variables, small, some_ids

H, T, D, K = 3, 7, 10, 6


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


def encoded(places, **changes):
    encoding = make_positions(small(**changes), is_causal=False)
    return encoding.init_with_output(jax.random.key(0), places, places)[0]


@pytest.mark.parametrize("kind", POSITIONS)
def test_a_kind_gives_vectors_or_angles_or_a_bias_and_no_zeros(kind):
    given = encoded(jnp.arange(T)[None], positions=kind, **POSITIONS[kind])
    assert sum(part is not None for part in given) == (kind != "none")
    assert (given.bias is not None) == (kind in BIASED_POSITIONS)


@pytest.mark.parametrize(
    "kind", ["sinusoidal", "sinusoidal_concatenated", "sinusoidal_tensor2tensor"]
)
def test_sinusoids_begin_where_the_config_says(kind):
    from_0 = encoded(jnp.arange(T)[None] + 2, positions=kind, first_position=0).vectors
    from_2 = encoded(jnp.arange(T)[None], positions=kind, first_position=2).vectors
    np.testing.assert_array_equal(from_2, from_0)


def test_naive_positions_are_a_number_in_every_dimension():
    places = jnp.asarray([[0, 1, 2], [0, 1, 0]])
    whole = encoded(places, positions="counted").vectors
    share = encoded(places, positions="scaled", max_positions=4).vectors
    for dimension in range(small().d_model):
        np.testing.assert_array_equal(whole[..., dimension], places)
        np.testing.assert_array_equal(share[..., dimension], places / 4)


def test_positions_need_not_count_up():
    positions = jnp.asarray([[0, 1, 2, 0, 1], [0, 0, 1, 2, 3]])
    packed = sinusoids(positions, D)
    np.testing.assert_array_equal(packed, sinusoids(jnp.arange(T), D)[positions])


def test_a_learned_table_is_learned_and_bounded():
    config = small(positions="learned", max_positions=T)
    two = jnp.arange(2)[None]
    encoding = make_positions(config, is_causal=False)
    (leaf,) = jax.tree.leaves(encoding.init(jax.random.key(0), two, two))
    assert leaf.shape == (T, config.d_model)
    check_length(T, config)
    with pytest.raises(ValueError, match=r"a sequence of 8 tokens .* model\.max_positions=7"):
        check_length(T + 1, config)


def test_learned_positions_start_at_the_scale_of_embeddings():
    places = jnp.arange(500)[None]
    vectors = encoded(places, positions="learned", max_positions=500, d_model=64).vectors
    assert np.std(vectors) == pytest.approx(1, rel=0.05)


def test_learned_positions_begin_with_their_first_row_wherever_sinusoids_begin():
    from_0, from_2 = (
        encoded(jnp.arange(T)[None], positions="learned", first_position=first).vectors
        for first in (0, 2)
    )
    np.testing.assert_array_equal(from_2, from_0)


def test_rotary_turns_pairs_as_complex_numbers():
    positions = np.asarray([[0, 1, 2, 0, 1], [3, 9, 4, 100, 5]])
    B, T = positions.shape
    x = np.random.default_rng(0).normal(size=(B, H, T, K)).astype(np.float32)
    expected = np.zeros_like(x)
    for b in range(B):
        for t in range(T):
            for i in range(K // 2):
                turn = np.exp(1j * positions[b, t] * 10000 ** (-2 * i / K))
                pair = (x[b, :, t, 2 * i] + 1j * x[b, :, t, 2 * i + 1]) * turn
                expected[b, :, t, 2 * i], expected[b, :, t, 2 * i + 1] = pair.real, pair.imag
    actual = rotate(jnp.asarray(x), paper_angles(jnp.asarray(positions), K))
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_rotary_products_depend_on_the_distance_alone():
    query, key = np.random.default_rng(0).normal(size=(2, 1, 1, 1, K)).astype(np.float32)

    def product(position, other):
        turned = [
            rotate(jnp.asarray(x), paper_angles(jnp.asarray([[at]]), K))
            for x, at in ((query, position), (key, other))
        ]
        return float((turned[0] * turned[1]).sum())

    assert product(7, 3) == pytest.approx(product(4, 0), abs=1e-5)
    assert product(7, 3) != pytest.approx(product(3, 7), abs=1e-2)


def test_rotary_angles_are_float32_in_bfloat16():
    """In bfloat16 the position 257 would be 256, and its sine that of another angle."""
    x = jnp.ones((1, 1, 2, K), jnp.bfloat16)
    turned = rotate(x, paper_angles(jnp.asarray([[256, 257]]), K))
    assert turned.dtype == jnp.bfloat16
    expected = math.cos(257) - math.sin(257)
    assert float(turned[0, 0, 1, 0]) == pytest.approx(expected, abs=0.01)


def test_alibi_slopes_are_the_papers():
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(16) == [2 ** (-i / 2) for i in range(1, 17)]
    assert alibi_slopes(1) == [2.0**-8]


def test_alibi_slopes_of_6_heads_are_those_of_4_and_every_other_one_of_8():
    assert alibi_slopes(6) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]


def test_alibi_is_the_slope_times_the_distance_to_either_side():
    distances = jnp.asarray([[[0, 1, 2], [-1, 0, 1]]])
    bias = alibi_bias(distances, 4)
    assert bias.shape == (1, 4, 2, 3)
    np.testing.assert_allclose(bias[0, 1], -0.0625 * np.asarray([[0, 1, 2], [1, 0, 1]]))


def bucket_by_hand(distance, num_buckets, max_distance, is_causal):
    first = 0
    if is_causal:
        distance = max(-distance, 0)
    else:
        num_buckets //= 2
        first = num_buckets if distance > 0 else 0
        distance = abs(distance)
    num_exact = num_buckets // 2
    if distance < num_exact:
        return first + distance
    share = math.log(distance / num_exact) / math.log(max_distance / num_exact)
    return first + min(num_exact + int(share * (num_buckets - num_exact)), num_buckets - 1)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("sizes", [(32, 128), (8, 20), (4, 3)], ids=str)
def test_buckets_are_those_of_t5(sizes, is_causal):
    distances = np.arange(-300, 300)
    actual = relative_bucket(jnp.asarray(distances), *sizes, is_causal=is_causal)
    expected = [bucket_by_hand(int(distance), *sizes, is_causal) for distance in distances]
    np.testing.assert_array_equal(actual, expected)
    # To either side T5 has a bucket of distance 0; that of what comes after is idle.
    idle = set() if is_causal else {sizes[0] // 2}
    assert set(expected) == set(range(sizes[0])) - idle


def test_a_bucket_has_a_number_for_each_head():
    config = small(positions="relative")
    module = RelativeBias(config, is_causal=False)
    distances = jnp.asarray([[[0, 1, -1, 99]]])
    variables = module.init(jax.random.key(0), distances)
    table = variables["params"]["table"]
    bias = module.apply(variables, distances)
    assert table.shape == (config.relative_buckets, config.num_heads)
    np.testing.assert_array_equal(bias[0, :, 0], table[jnp.asarray([0, 5, 1, 7])].T)


def test_a_decoders_buckets_are_all_for_what_lies_behind():
    model, variables = model_and_variables(family="decoder_only", positions="relative")
    ids = some_ids(1, 8)
    gradient = jax.grad(lambda v: model.apply(v, ids, deterministic=True)[..., 5].sum())(variables)
    of_bucket = np.abs(gradient["params"]["decoder"]["relative_bias"]["table"]).sum(-1)
    # 0 to 7 tokens back: 0, 1, 2, 3, 4, 4, 5, 5 of the 8 buckets.
    np.testing.assert_array_equal(of_bucket > 0, np.arange(8) <= 5)


def test_relative_biases_start_small():
    config = small(
        positions="relative", d_model=64, relative_buckets=400, relative_max_distance=500
    )
    variables = RelativeBias(config, False).init(jax.random.key(0), jnp.zeros((1, 1, 1), int))
    assert np.std(variables["params"]["table"]) == pytest.approx(64**-0.5, rel=0.05)
