import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import END_ID, START_ID, learn_vocabulary
from t2t_jax.decoding.classify import SentenceClassifier
from tests.model.configs import model_and_variables

SENTENCES = ["a", "the dog sees a cat", "", "cat", " \t", "a bed in the sea", "a", "tea"]
NAMES = ["one", "two", "three"]


@functools.cache
def _vocabulary():
    return learn_vocabulary(SENTENCES, "char", 40, 1.0)


@functools.cache
def _model_and_params(**changes):
    changes = {"pooling": "mean", "vocabulary_rows": 20, "max_positions": 32} | changes
    model, variables = model_and_variables(family="encoder_only", **changes)
    return model, variables["params"]


@functools.cache
def _classifier(compile=jax.jit, **options):
    model, params = _model_and_params()
    return SentenceClassifier(model, params, _vocabulary(), NAMES, compile=compile, **options)


def _same(found, expected):
    assert [one and one.name for one in found] == [one and one.name for one in expected]
    for one, other in zip(found, expected, strict=True):
        if one is not None:
            np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-4)


def test_the_class_is_the_likeliest_of_the_model():
    model, params = _model_and_params()
    forward = jax.jit(functools.partial(model.apply, deterministic=True))
    (ids,) = _vocabulary().encode(["cat"])
    logits = np.asarray(forward({"params": params}, jnp.asarray([[START_ID, *ids, END_ID]])))[0]
    expected = np.exp(logits) / np.exp(logits).sum()
    found = _classifier()(SENTENCES)[SENTENCES.index("cat")]
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-4)
    assert found.name == NAMES[expected.argmax()]
    assert found.probability == max(found.probabilities)


def test_empty_lines_keep_their_place_without_the_model():
    found = _classifier()(SENTENCES)
    assert [place for place, one in enumerate(found) if one is None] == [2, 4]

    def no_model(classify):
        def refuse(params, ids):
            raise AssertionError("the model was asked")

        return refuse

    assert _classifier(compile=no_model)(["", " "]) == [None, None]
    assert _classifier()([]) == []


def test_classes_come_in_the_order_of_the_input_whatever_the_batches():
    classify = _classifier()
    forward = classify(SENTENCES)
    _same(classify(SENTENCES[::-1])[::-1], forward)
    _same(classify(SENTENCES[3:4]), forward[3:4])
    _same(_classifier(tokens_per_batch=1, row_multiple=3)(SENTENCES), forward)
    assert len({one.probabilities for one in forward if one}) > 3


def test_progress_ends_at_the_number_of_sentences():
    seen = []
    _classifier()(SENTENCES, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (len(SENTENCES), len(SENTENCES))


def test_a_sentence_longer_than_the_learned_positions_is_refused_in_words():
    model, params = _model_and_params(positions="learned")
    classify = SentenceClassifier(model, params, _vocabulary(), NAMES, compile=jax.jit)
    with pytest.raises(ValueError, match="sentence 2 has 43 tokens .* max_positions=32"):
        classify(["a", "c" * 40])


def test_each_class_needs_a_name():
    model, params = _model_and_params()
    with pytest.raises(ValueError, match="2 class names for model.num_classes=3"):
        SentenceClassifier(model, params, _vocabulary(), NAMES[:2], compile=jax.jit)


def test_a_model_that_diverged_is_told():
    model, params = _model_and_params()
    nothing = jax.tree.map(lambda leaf: leaf * np.nan, params)
    classifier = SentenceClassifier(model, nothing, _vocabulary(), NAMES, compile=jax.jit)
    with pytest.raises(ValueError, match="it diverged"):
        classifier(["cat"])
