import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID
from tests.decoding.toy import greedy_search, make_toy, num_steps, tokens


def _by_hand(toy, sentence, limit, vocabulary_size):
    ids, total = (), 0.0
    while END_ID not in ids:
        log_probs = toy.log_probs(sentence, ids)
        allowed = [END_ID]
        if len(ids) + 1 < limit:
            allowed = [i for i in range(vocabulary_size) if i not in (PAD_ID, START_ID)]
        token = max(allowed, key=lambda i: log_probs[i])
        total += log_probs[token]
        ids += (token,)
    return list(ids), total


PENALTIES = {"gnmt": lambda n: ((5 + n) / 6) ** 0.6, "power": lambda n: n**0.6}


@pytest.mark.parametrize("formula", PENALTIES)
def test_every_token_is_the_likeliest_and_the_score_is_penalised(formula):
    toy = make_toy(0, num_sentences=12)
    limits = [7, 3, 1, 5, 7, 7, 7, 4, 6, 7, 2, 7]
    found = jax.jit(
        lambda limits: greedy_search(
            toy.decode_step,
            toy.cache(1),
            limits,
            max_length=7,
            length_penalty=0.6,
            length_penalty_formula=formula,
            vocabulary_size=6,
        )
    )(jnp.array(limits))
    for sentence, limit in enumerate(limits):
        ids, log_prob = _by_hand(toy, sentence, limit, vocabulary_size=6)
        assert tokens(found.ids[sentence, 0]) == ids
        score = log_prob / PENALTIES[formula](len(ids))
        np.testing.assert_allclose(found.scores[sentence, 0], score, rtol=1e-5)


def test_it_stops_when_every_sentence_has_ended():
    toy = make_toy(0, end_bias=20.0)
    assert num_steps(greedy_search, toy, [9, 9, 9], max_length=9) == 1
    assert num_steps(greedy_search, toy, [0, 0, 0], max_length=9) == 0


def test_a_row_without_a_sentence_has_no_hypothesis():
    toy = make_toy(0)
    found = greedy_search(toy.decode_step, toy.cache(1), jnp.array([4, 0, 4]), max_length=6)
    assert tokens(found.ids[1, 0]) == [] and found.scores[1, 0] == -jnp.inf
    assert np.all(np.isfinite(found.scores[jnp.array([0, 2])]))


def test_probabilities_that_are_no_numbers_give_no_hypothesis():
    toy = make_toy(0)._replace(output=np.full((5, 7), np.nan, np.float32))
    found = greedy_search(toy.decode_step, toy.cache(1), jnp.array([4, 4, 4]), max_length=6)
    np.testing.assert_array_equal(found.scores, -np.inf)
    np.testing.assert_array_equal(found.ids, PAD_ID)
