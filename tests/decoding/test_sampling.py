import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.decoding.sampling import (
    Sampling,
    choose,
    position_keys,
    row_keys,
    sampled_from,
    with_temperature,
    with_top_k,
    with_top_p,
)


def _scores(*probabilities):
    with np.errstate(divide="ignore"):
        return jnp.asarray(np.log(np.array(probabilities, np.float32)))


def _kept(scores):
    return [np.flatnonzero(np.isfinite(row)).tolist() for row in np.asarray(scores)]


def _probabilities_by_hand(logits, temperature, top_k, top_p):
    """One row, as Hugging Face's three steps say it, without a sort of the whole."""
    weights = np.exp(np.asarray(logits, np.float64) / temperature)
    if top_k:
        weights = [w if sum(weights > w) < top_k else 0.0 for w in weights]
    weights = np.array(weights) / sum(weights)
    kept = [w if weights[weights > w].sum() < top_p else 0.0 for w in weights]
    return np.array(kept) / sum(kept)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1, 0, 1), (0.5, 0, 1), (3, 4, 1), (1, 0, 0.6), (0.7, 5, 0.8), (2, 3, 0.5), (1, 1, 1)],
)
def test_what_is_sampled_from_is_the_formula(temperature, top_k, top_p):
    logits = np.random.default_rng(0).normal(scale=2, size=(4, 9)).astype(np.float32)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    found = np.asarray(jax.nn.softmax(sampled_from(jnp.asarray(logits), sampling)))
    for row in range(4):
        expected = _probabilities_by_hand(logits[row], temperature, top_k, top_p)
        np.testing.assert_allclose(found[row], expected, rtol=1e-5)


def test_the_nucleus_is_measured_in_what_temperature_and_top_k_leave():
    scores = _scores([0.4, 0.3, 0.2, 0.1])
    # 0.4 of all is 4/7 of the best two: the second is not needed for a half.
    assert _kept(with_top_p(scores, 0.5)) == [[0, 1]]
    assert _kept(sampled_from(scores, Sampling(temperature=1, top_k=2, top_p=0.5))) == [[0]]
    # A low temperature gives the best one more than a half: 16 / (16 + 9 + 4 + 1).
    assert _kept(sampled_from(scores, Sampling(temperature=0.5, top_p=0.5))) == [[0]]


def test_top_k_at_its_edges():
    scores = _scores([0.1, 0.4, 0.2, 0.3])
    assert _kept(with_top_k(scores, 1)) == [[1]]
    assert _kept(with_top_k(scores, 3)) == [[1, 2, 3]]
    for all_of_them in (0, 4, 5, 1000):
        np.testing.assert_array_equal(with_top_k(scores, all_of_them), scores)


def test_top_p_at_its_edges():
    scores = _scores([0.125, 0.5, 0.125, 0.25])
    assert _kept(with_top_p(scores, 1e-30)) == [[1]]
    assert _kept(with_top_p(scores, 0.5)) == [[1]]  # just enough
    assert _kept(with_top_p(scores, 0.51)) == [[1, 3]]
    np.testing.assert_array_equal(with_top_p(scores, 1.0), scores)
    # 1 keeps what a sum of floats would lose.
    long_tail = jnp.asarray([[0.0, *[-25.0] * 50]])
    assert len(_kept(with_top_p(long_tail, 1.0))[0]) == 51


def test_of_equally_likely_tokens_none_is_cut_alone():
    scores = _scores([0.2, 0.2, 0.4, 0.2])
    assert _kept(with_top_k(scores, 2)) == [[0, 1, 2, 3]]
    assert _kept(with_top_p(scores, 0.5)) == [[0, 1, 2, 3]]
    assert _kept(with_top_p(scores, 0.4)) == [[2]]


def test_what_may_not_come_next_stays_so():
    scores = _scores([0.0, 0.5, 0.0, 0.5])
    sampling = Sampling(temperature=5, top_k=3, top_p=0.99)
    assert _kept(sampled_from(scores, sampling)) == [[1, 3]]


@pytest.mark.parametrize("temperature", [1e-30, 1e30])
def test_extreme_temperatures_are_the_likeliest_and_all_alike(temperature):
    scores = jnp.asarray([[-3.0, 80.0, -jnp.inf, 79.0]])
    found = np.asarray(jax.nn.softmax(with_temperature(scores, temperature)))[0]
    expected = [0, 1, 0, 0] if temperature < 1 else [1 / 3, 1 / 3, 0, 1 / 3]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_temperature_zero_is_the_likeliest_whatever_the_cuts():
    scores = jnp.asarray(np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32))
    keys = jax.random.split(jax.random.key(0), 5)
    for sampling in (Sampling(), Sampling(top_k=3, top_p=0.5), Sampling(temperature=1, top_k=1)):
        np.testing.assert_array_equal(choose(scores, keys, sampling), np.argmax(scores, axis=-1))
    assert choose(_scores([0.2, 0.4, 0.4]), keys[:1], Sampling()) == 1


# The 0.9999 quantile of the chi-square distribution for its degrees of freedom.
_CHI_SQUARE = {4: 23.51, 2: 18.42}


@pytest.mark.parametrize(
    ("sampling", "num_kept"),
    [(Sampling(temperature=1.5), 5), (Sampling(temperature=0.8, top_k=4, top_p=0.8), 3)],
)
def test_samples_have_the_probabilities_they_are_drawn_from(sampling, num_kept):
    num_draws = 20_000
    logits = np.array([0.3, -jnp.inf, 1.2, -1.0, 0.9, 0.1], np.float32)
    scores = jnp.broadcast_to(jnp.asarray(logits), (num_draws, 6))
    rows = jnp.arange(num_draws)
    keys = position_keys(row_keys(7, rows // 100, rows % 100), jnp.asarray(3))
    counts = np.bincount(choose(scores, keys, sampling), minlength=6)
    with np.errstate(divide="ignore"):
        expected = num_draws * _probabilities_by_hand(
            logits, sampling.temperature, sampling.top_k, sampling.top_p
        )
    possible = expected > 0
    assert possible.sum() == num_kept
    assert np.all(counts[~possible] == 0)
    chi_square = np.sum((counts - expected)[possible] ** 2 / expected[possible])
    assert chi_square < _CHI_SQUARE[num_kept - 1]


def test_every_row_sample_position_and_seed_has_a_key_of_its_own():
    row, sample = (jnp.asarray(axis) for axis in ([0, 0, 1, 1], [0, 1, 0, 1]))
    data = [
        jax.random.key_data(position_keys(row_keys(seed, row, sample), jnp.asarray(position)))
        for seed in (0, 1)
        for position in (0, 1)
    ]
    assert len(np.unique(np.concatenate(data), axis=0)) == 16


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"temperature": -0.5}, "temperature=-0.5 must be finite and not negative"),
        ({"temperature": 1e-40}, "temperature=1e-40 must be 0, or at least 1.18e-38"),
        ({"temperature": float("nan")}, "temperature=nan must be finite"),
        ({"top_k": -1}, "top_k=-1 must be at least 0"),
        ({"top_p": 0}, r"top_p=0.0 must be above 0 and at most 1"),
        ({"top_p": 1.5}, r"top_p=1.5 must be above 0 and at most 1"),
    ],
)
def test_a_wrong_number_is_told(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        Sampling(**values)


def test_draws_do_not_depend_on_the_default_generator():
    rows = jnp.arange(3)

    def drawn():
        keys = position_keys(row_keys(7, rows, rows), jnp.asarray(3))
        return choose(jnp.zeros((3, 99)), keys, Sampling(temperature=1.0))

    expected = drawn()
    with jax.default_prng_impl("rbg"):
        np.testing.assert_array_equal(drawn(), expected)
