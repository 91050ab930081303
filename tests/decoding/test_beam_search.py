import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID
from tests.decoding.toy import beam_search, greedy_search, make_toy, num_steps, tokens


def _search(toy, limits, **options):
    """Beam search with a cache for W beams, compiled."""
    options = {"max_length": max(limits), "length_penalty": 0.6, **options}
    search = functools.partial(
        beam_search, toy.decode_step, toy.cache(options["beam_size"]), **options
    )
    return jax.tree.map(np.asarray, jax.jit(search)(jnp.array(limits)))


def _score(log_prob, num_tokens, alpha, formula="gnmt"):
    return log_prob / (num_tokens if formula == "power" else (5 + num_tokens) / 6) ** alpha


def _all_sentences(toy, sentence, limit, alpha, words):
    """Every output of at most `limit` tokens with its score, best first."""
    found = []
    for num_words in range(limit):
        for output in itertools.product(words, repeat=num_words):
            output = (*output, END_ID)
            log_prob = sum(
                toy.log_probs(sentence, output[:place])[token] for place, token in enumerate(output)
            )
            found.append((_score(log_prob, len(output), alpha), list(output)))
    return sorted(found, reverse=True)


def _plain_search(toy, sentence, limit, alpha, beam_size, words, formula="gnmt"):
    """Beam search with lists and without any early stop but the one that loses hypotheses."""
    alive, finished = [(0.0, ())], []
    for length in range(1, limit + 1):
        continued = [
            (log_prob + toy.log_probs(sentence, ids)[token], (*ids, token))
            for log_prob, ids in alive
            for token in ([END_ID] if length == limit else [END_ID, *words])
        ]
        continued = sorted(continued, reverse=True)[: 2 * beam_size]
        ended = [c for c in continued[:beam_size] if c[1][-1] == END_ID]
        finished += [
            (_score(log_prob, length, alpha, formula), list(ids)) for log_prob, ids in ended
        ]
        if len(ended) == len(continued[:beam_size]):
            break
        alive = [c for c in continued if c[1][-1] != END_ID][:beam_size]
    return sorted(finished, reverse=True)[:beam_size]


def _assert_same(found, sentence, expected):
    assert [tokens(ids) for ids in found.ids[sentence, : len(expected)]] == [
        ids for _, ids in expected
    ]
    # Logits are of size 1: what a likely sentence's log-probability near 0 loses is absolute.
    np.testing.assert_allclose(
        found.scores[sentence, : len(expected)],
        [score for score, _ in expected],
        rtol=1e-5,
        atol=2e-6,
    )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_wider_than_all_prefixes_finds_the_best_sentences_there_are(alpha):
    toy = make_toy(0, num_sentences=5)
    limits = [4, 1, 3, 4, 4]
    found = _search(toy, limits, beam_size=5**3, length_penalty=alpha, n_best=20)
    for sentence, limit in enumerate(limits):
        best = _all_sentences(toy, sentence, limit, alpha, words=[3, 4, 5, 6])[:20]
        _assert_same(found, sentence, best)


@pytest.mark.parametrize(
    ("alpha", "formula"), [(0.0, "gnmt"), (0.6, "gnmt"), (2.0, "gnmt"), (0.6, "power")]
)
@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_it_finds_what_a_plain_search_without_early_stopping_finds(beam_size, alpha, formula):
    toy = make_toy(0, num_sentences=16, end_bias=1.0)
    limits = [9, 6, 2, 3] * 4
    found = _search(
        toy, limits, beam_size=beam_size, length_penalty=alpha, length_penalty_formula=formula
    )
    for sentence, limit in enumerate(limits):
        words = [3, 4, 5, 6]
        expected = _plain_search(toy, sentence, limit, alpha, beam_size, words, formula)
        _assert_same(found, sentence, expected)
        np.testing.assert_array_equal(found.scores[sentence, len(expected) :], -np.inf)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_of_one_equals_greedy_search(alpha):
    toy = make_toy(0, num_sentences=40, end_bias=0.5)
    limits = [1 + place % 10 for place in range(40)]
    beam = _search(toy, limits, beam_size=1, length_penalty=alpha)
    search = functools.partial(greedy_search, max_length=10, length_penalty=alpha)
    greedy = jax.jit(lambda limits: search(toy.decode_step, toy.cache(1), limits))(
        jnp.array(limits)
    )
    np.testing.assert_array_equal(beam.ids, greedy.ids)
    np.testing.assert_allclose(beam.scores, greedy.scores, rtol=1e-6)


def test_fewer_hypotheses_are_the_first_of_more_in_no_more_steps():
    toy = make_toy(1, num_sentences=20, end_bias=2.0)
    limits = [12] * 20
    options = {"beam_size": 4, "length_penalty": 0.6, "max_length": 12}
    four = _search(toy, limits, **options)
    one = _search(toy, limits, n_best=1, **options)
    np.testing.assert_array_equal(one.ids, four.ids[:, :1])
    np.testing.assert_array_equal(one.scores, four.scores[:, :1])
    steps_of_four = num_steps(beam_search, toy, limits, **options)
    steps_of_one = num_steps(beam_search, toy, limits, n_best=1, **options)
    assert steps_of_one < steps_of_four


def test_hypotheses_are_sorted_distinct_and_whole():
    toy = make_toy(2, num_sentences=10)
    found = _search(toy, [8] * 10, beam_size=6)
    assert np.all(np.diff(found.scores, axis=1) <= 0)
    for sentence in range(10):
        hypotheses = {tuple(tokens(ids)) for ids in found.ids[sentence]}
        assert len(hypotheses) == 6
        for ids in hypotheses:
            assert ids.index(END_ID) == len(ids) - 1
    after_end = np.cumsum(found.ids == END_ID, axis=-1) - (found.ids == END_ID)
    np.testing.assert_array_equal(found.ids * after_end, PAD_ID)


def test_each_sentence_keeps_to_its_own_limit():
    toy = make_toy(0, num_sentences=5, end_bias=-30.0)
    limits = [1, 2, 3, 5, 8]
    found = _search(toy, limits, beam_size=2)
    lengths = np.sum(found.ids != PAD_ID, axis=-1)
    np.testing.assert_array_equal(lengths[:, 0], limits)


def test_limits_above_the_room_in_the_cache_count_as_the_room():
    toy = make_toy(0, end_bias=-30.0)
    found = _search(toy, [100, 2, 4], beam_size=2, max_length=4)
    np.testing.assert_array_equal(np.sum(found.ids != PAD_ID, axis=-1)[:, 0], [4, 2, 4])


def test_padding_start_and_ids_beyond_the_vocabulary_are_never_generated():
    toy = make_toy(0)
    toy.output[1:, [PAD_ID, START_ID, 6]] *= 10.0
    found = _search(toy, [6, 6, 6], beam_size=4, vocabulary_size=6)
    generated = set(np.concatenate([tokens(ids) for ids in found.ids.reshape(-1, 6)]).tolist())
    assert generated <= {END_ID, 3, 4, 5}
    assert len(generated) > 1


def test_scores_are_the_models_own_log_probabilities():
    toy = make_toy(3)
    found = _search(toy, [5, 5, 5], beam_size=4, vocabulary_size=5)
    for sentence in range(3):
        for ids, score in zip(found.ids[sentence], found.scores[sentence], strict=True):
            output = tuple(tokens(ids))
            log_prob = sum(
                toy.log_probs(sentence, output[:place])[token] for place, token in enumerate(output)
            )
            np.testing.assert_allclose(score, _score(log_prob, len(output), 0.6), rtol=1e-5)


def test_other_sentences_in_the_batch_change_nothing():
    toy = make_toy(4, num_sentences=6)
    together = _search(toy, [3, 7, 5, 0, 2, 7], beam_size=3)
    alone = _search(toy._replace(starts=toy.starts[2:3]), [5], beam_size=3)
    np.testing.assert_array_equal(together.ids[2, :, :5], alone.ids[0])
    np.testing.assert_allclose(together.scores[2], alone.scores[0], rtol=1e-6)


def test_a_row_without_a_sentence_has_no_hypotheses_and_costs_no_step():
    toy = make_toy(0)
    found = _search(toy, [4, 0, 4], beam_size=3)
    np.testing.assert_array_equal(found.scores[1], -np.inf)
    np.testing.assert_array_equal(found.ids[1], PAD_ID)
    assert np.all(np.isfinite(found.scores[0]))
    options = {"beam_size": 3, "max_length": 4, "length_penalty": 0.6}
    assert num_steps(beam_search, toy, [0, 0, 0], **options) == 0


def test_it_stops_once_no_alive_beam_can_win():
    toy = make_toy(0, end_bias=5.0)
    options = {"beam_size": 3, "max_length": 30, "length_penalty": 0.6, "n_best": 1}
    assert num_steps(beam_search, toy, [30, 30, 30], **options) < 10


def test_probabilities_that_are_no_numbers_give_no_hypotheses():
    toy = make_toy(0)._replace(output=np.full((5, 7), np.nan, np.float32))
    found = _search(toy, [4, 4, 4], beam_size=3)
    np.testing.assert_array_equal(found.scores, -np.inf)
    np.testing.assert_array_equal(found.ids, PAD_ID)
