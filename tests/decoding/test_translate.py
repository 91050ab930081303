import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID, learn_vocabulary
from t2t_jax.decoding import translate as translate_module
from t2t_jax.decoding.step import Hypotheses
from t2t_jax.decoding.translate import Translation, Translator, make_decode
from t2t_jax.model.transformer import Transformer
from tests.decoding.configs import BEAM_OF_3, beam_of_3
from tests.model.configs import random_variables, small

MODEL = small(vocabulary_rows=40, d_ff=16, num_heads=2, max_positions=32, dropout_rate=0.1)
SENTENCES = ["a", "the dog sees a cat", "", "cat", "no", " \t", "a bed in the sea", "a", "tea"]


@functools.cache
def _vocabulary():
    return learn_vocabulary(SENTENCES, "char", 40, 1.0)


@functools.cache
def _model_and_params(config=MODEL):
    model = Transformer(config)
    # With other numbers it says one word, or nothing, whatever it is asked.
    return model, random_variables(model, seed=1)["params"]


def _full_log_probs(source, target_ids):
    """Log-probabilities of every target token's place, all positions at once and no cache."""
    model, params = _model_and_params()
    inputs = np.pad(target_ids, ((0, 0), (1, 0)), constant_values=START_ID)[:, :-1]
    forward = jax.jit(functools.partial(model.apply, deterministic=True))
    return np.array(jax.nn.log_softmax(forward({"params": params}, source, inputs)))


@functools.cache
def _decode(beam_size, vocabulary_size):
    model, _ = _model_and_params()
    config = beam_of_3(beam_size=beam_size, n_best=beam_size)
    return jax.jit(make_decode(model, config, vocabulary_size))


def _search(source, *, beam_size=3, vocabulary_size=40):
    _, params = _model_and_params()
    return jax.tree.map(np.asarray, _decode(beam_size, vocabulary_size)(params, source))


@functools.cache
def _translator(model=MODEL, compile=jax.jit, **changes):
    decoding = beam_of_3(**changes)
    return Translator(*_model_and_params(model), _vocabulary(), decoding, compile=compile)


def _same(translations, others):
    assert [[t.text for t in best] for best in translations] == [
        [t.text for t in best] for best in others
    ]
    for best, other in zip(translations, others, strict=True):
        np.testing.assert_allclose([t.score for t in best], [t.score for t in other], rtol=1e-4)


def test_translations_come_in_the_order_of_the_input():
    translate = _translator()
    forward = translate(SENTENCES)
    _same(translate(SENTENCES[::-1])[::-1], forward)
    assert len({best[0].text for best in forward}) > 3


def test_a_sentence_is_translated_as_if_it_were_alone():
    translate = _translator()
    together = translate(SENTENCES)
    for place in (0, 3):
        _same(translate(SENTENCES[place : place + 1]), together[place : place + 1])


def test_an_empty_line_translates_to_an_empty_line_without_the_model():
    def no_model(decode):
        def refuse(params, source_ids):
            raise AssertionError("the model was asked")

        return refuse

    translations = _translator(compile=no_model)(["", "  ", "\t\n"])
    assert translations == [[Translation("", 0.0)]] * 3
    assert _translator()(["cat", "", "tea"])[1] == [Translation("", 0.0)]
    assert _translator()([]) == []


def test_n_best_are_sorted_and_distinct():
    for best in _translator()(["the dog sees a cat", "a"]):
        scores = [translation.score for translation in best]
        assert len(best) == 3
        assert scores == sorted(scores, reverse=True)
        assert len({translation.text for translation in best}) == 3


def test_n_best_are_the_first_of_the_beam():
    all_three = _translator()(SENTENCES)
    _same(_translator(n_best=1)(SENTENCES), [best[:1] for best in all_three])


@pytest.mark.parametrize(
    ("beam_size", "expected"), [(1, {(8, 16), (6, 32), (3, 64)}), (3, {(4, 16), (2, 32), (1, 64)})]
)
def test_few_shapes_are_compiled_for_many_lengths(beam_size, expected):
    shapes = set()

    def spy(decode):
        def spied(params, source_ids):
            shapes.add(source_ids.shape)
            # What a search would find does not matter here, and takes long to compile.
            num_rows = source_ids.shape[0]
            return Hypotheses(jnp.full((num_rows, 1, 1), END_ID), jnp.zeros((num_rows, 1)))

        return spied

    sentences = ["a" * length for length in range(1, 60)]
    assert len(_translator(compile=spy, beam_size=beam_size, n_best=1)(sentences)) == 59
    # 192 tokens of all beams in a batch, lengths with the end token: 2-16, 17-32, 33-60.
    assert shapes == expected


def test_batches_cut_over_devices_are_translated_as_on_one():
    rows = jax.sharding.PartitionSpec("data")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    shapes = []

    def compile(decode):
        def spied(params, source_ids):
            shapes.append(source_ids.shape)
            return decode(params, source_ids)

        specs = jax.sharding.PartitionSpec(), rows
        cut = jax.shard_map(spied, mesh=mesh, in_specs=specs, out_specs=rows, check_vma=False)
        return jax.jit(cut)

    model, params = _model_and_params()
    translate = Translator(model, params, _vocabulary(), BEAM_OF_3, compile=compile, row_multiple=2)
    sentences = ["cat", "a bed", "tea"]
    _same(translate(sentences), _translator()(sentences))
    translate(["a"])  # goes where three did: nothing is compiled anew
    assert shapes == [(2, 16)]


def test_elsewhere_than_on_a_cpu_all_shapes_are_compiled_before_the_first_search(monkeypatch):
    sentences = ["cat", "a bed", "the cat and the dog"]
    expected = _translator()(sentences)
    events = []

    class Compiled:
        def __init__(self, decode):
            def traced(params, source_ids):
                events.append("compiled")
                return decode(params, source_ids)

            self.lower = jax.jit(traced).lower
            self._call = jax.jit(traced)

        def __call__(self, params, source_ids):
            events.append("searched")
            return self._call(params, source_ids)

    with monkeypatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: "gpu")
        translate = _translator.__wrapped__(compile=Compiled)
    _same(translate(sentences), expected)
    _same(translate(sentences), expected)
    assert events == ["compiled"] * 2 + ["searched"] * 4


def test_in_stages_it_says_the_same_and_much_work_is_done_so_by_itself(monkeypatch):
    model, params = _model_and_params()
    sentences = SENTENCES * 20
    expected = _translator()(sentences)
    options = dict(compile=jax.jit)
    staged = Translator(model, params, _vocabulary(), BEAM_OF_3, in_stages=True, **options)
    _same(staged(sentences), expected)

    def refuse(decode):
        def refused(*arguments):
            raise AssertionError("not in stages")

        return refused

    translate = Translator(model, params, _vocabulary(), BEAM_OF_3, compile=refuse)
    with pytest.raises(AssertionError, match="not in stages"):
        translate(sentences)
    monkeypatch.setitem(translate_module._WORTH_STAGES, "cpu", 1e6)
    _same(translate(sentences), expected)


@pytest.mark.parametrize("in_stages", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_in_bfloat16_round_a_search_unless_the_model_does(dtype, in_stages):
    model, params = _model_and_params(dataclasses.replace(MODEL, dtype=dtype))

    def translated(weights_dtype):
        config = beam_of_3(weights_dtype=weights_dtype)
        options = dict(compile=jax.jit, in_stages=in_stages)
        found = Translator(model, params, _vocabulary(), config, **options)(SENTENCES)
        return [[(each.text, each.score) for each in best] for best in found]

    exact, rounded = translated("float32"), translated("bfloat16")
    if dtype == "bfloat16":
        assert rounded == exact
        return
    assert rounded != exact
    pairs = [(one[0], other[0]) for one, other in zip(exact, rounded, strict=True)]
    assert sum(text == other for (text, _), (other, _) in pairs) > len(SENTENCES) / 2
    for (_, score), (_, other) in pairs:
        assert other == pytest.approx(score, rel=0.05)


def test_progress_ends_at_the_number_of_sentences():
    seen = []
    _translator()(SENTENCES, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (len(SENTENCES), len(SENTENCES))


@pytest.mark.parametrize(
    ("beam_size", "max_tokens", "lengths"),
    [(1, 0, [7, 3, 0]), (3, 3, [3, 3, 0]), (1, 9, [9, 9, 0])],
)
def test_max_tokens_alone_rule_where_they_are_given(beam_size, max_tokens, lengths):
    model, params = _model_and_params(dataclasses.replace(MODEL, output_bias=True))
    bias = np.zeros(40, np.float32)
    bias[END_ID] = -1e6  # so that no sentence ends before it must
    params = {**params, "output": {"bias": bias}}
    config = beam_of_3(beam_size=beam_size, n_best=1, max_extra_tokens=1, max_tokens=max_tokens)
    source = _source([5, 6, 7, 8, 11, END_ID], [9, END_ID], [])
    found = jax.jit(make_decode(model, config, 40))(params, source)
    assert np.sum(found.ids[:, 0] != PAD_ID, axis=-1).tolist() == lengths


def test_a_sentence_longer_than_the_learned_positions_is_refused_in_words():
    translate = _translator(dataclasses.replace(MODEL, positions="learned"))
    with pytest.raises(ValueError, match="sentence 2 has 42 tokens .* max_positions=32"):
        translate(["a", "c" * 40])


def test_learned_positions_bound_the_output_as_well():
    learned = dataclasses.replace(MODEL, positions="learned")
    translate = _translator(learned, max_extra_tokens=20, beam_size=1, n_best=1)
    (best,) = translate(["c" * 30])
    assert 0 < len(best[0].text) <= 31


def test_a_model_that_diverged_gives_an_empty_translation_of_score_minus_infinity():
    model, params = _model_and_params()
    params = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), params)
    decoding = beam_of_3(beam_size=1, n_best=1)
    translate = Translator(model, params, _vocabulary(), decoding, compile=jax.jit)
    assert translate(["cat"]) == [[Translation("", -np.inf)]]


def _source(*rows, length=8):
    return np.array([[*row, *[PAD_ID] * (length - len(row))] for row in rows], np.int32)


ROWS = [5, 6, 7, 8, 11, END_ID], [9, 12, END_ID], [END_ID]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_more_padding_of_the_source_changes_nothing(beam_size):
    found = _search(_source(*ROWS), beam_size=beam_size)
    padded = _search(_source(*ROWS, [], [], length=11), beam_size=beam_size)
    np.testing.assert_array_equal(found.ids, padded.ids[:3, :, : found.ids.shape[2]])
    np.testing.assert_allclose(found.scores, padded.scores[:3], rtol=1e-4)
    np.testing.assert_array_equal(padded.scores[3:], -np.inf)
    np.testing.assert_array_equal(padded.ids[3:], PAD_ID)


def test_cached_greedy_decoding_is_the_argmax_of_the_full_forward_pass():
    source = _source(*ROWS)
    ids = _search(source, beam_size=1).ids[:, 0]
    log_probs = _full_log_probs(source, ids)
    log_probs[:, :, [PAD_ID, START_ID]] = -np.inf
    for row, limit in enumerate([6 + 5, 3 + 5, 1 + 5]):
        num_tokens = np.sum(ids[row] != PAD_ID)
        num_free = min(num_tokens, limit - 1)  # in its last place a sentence has to end
        assert num_free > 1
        np.testing.assert_array_equal(ids[row, :num_free], log_probs[row, :num_free].argmax(-1))


def test_beam_scores_are_the_likelihood_of_the_full_forward_pass():
    source = _source(*ROWS)
    found = _search(source)
    for rank in range(3):
        ids = found.ids[:, rank]
        log_probs = np.take_along_axis(_full_log_probs(source, ids), ids[:, :, None], axis=2)
        is_token = ids != PAD_ID
        totals = np.sum(log_probs[:, :, 0] * is_token, axis=1)
        penalties = ((5 + is_token.sum(axis=1)) / 6) ** 0.6
        np.testing.assert_allclose(found.scores[:, rank], totals / penalties, rtol=1e-4)


def test_only_pieces_of_the_vocabulary_are_generated():
    source = _source(*ROWS)
    assert _search(source).ids.max() >= 9
    assert _search(source, vocabulary_size=9).ids.max() < 9


def test_rows_without_a_piece_are_never_written():
    model, params = _model_and_params()
    size = _vocabulary().size
    assert size < 40
    seen = []

    def spy(decode):
        def spied(params, source_ids):
            hypotheses = jax.jit(decode)(params, source_ids)
            seen.append(int(hypotheses.ids.max()))
            return hypotheses

        return spied

    _translator(compile=spy)(SENTENCES)
    assert max(seen) < size
