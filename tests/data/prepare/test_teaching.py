"""Which sentences teach the vocabulary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_jax.data.corpora.embedded_corpus import ExampleChunk
from t2t_jax.data.prepare import teaching
from t2t_jax.data.prepare.teaching import CountWords, NumberedChunk, Sample, learn_from_train
from t2t_jax.data.vocabulary.vocabulary import UNKNOWN_ID, learn_vocabulary
from tests.data.text_corpus import sentence_pairs, text_config, write_corpus, write_pairs


def learned(config, num_examples=(80,), **changes):
    defaults = {"examples_per_chunk": 7, "num_processes": 1, "progress": lambda done: None}
    return learn_from_train(config, num_examples, **defaults | changes)


@given(
    num_examples=st.integers(1, 200),
    share=st.floats(0, 1),
    examples_per_chunk=st.integers(1, 50),
)
def test_a_sample_is_exact_and_evenly_spaced(num_examples, share, examples_per_chunk):
    num_taken = max(1, round(share * num_examples))
    sample = Sample(num_examples, num_taken, 1, False)
    taken = []
    for first in range(0, num_examples, examples_per_chunk):
        numbers = range(first, min(first + examples_per_chunk, num_examples))
        chunk = ExampleChunk([(str(number),) for number in numbers])
        taken += map(int, sample.texts(NumberedChunk(first, len(numbers), chunk)))
    assert len(taken) == num_taken
    gaps = np.diff([-1, *taken, num_examples])
    assert gaps[1:-1].size == 0 or np.ptp(gaps[1:-1]) <= 1
    assert gaps[0] <= -(-num_examples // num_taken) and gaps[-1] == 1


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_so_many_sentences_of_both_languages_teach(tmp_path, kind):
    write_corpus(tmp_path)
    changes = {"vocabulary_kind": kind, "vocabulary_size": 40}
    few = learned(text_config(tmp_path, vocabulary_sentences=41, **changes))
    pairs = sentence_pairs(80)[3::4]
    sentences = [text for english, german in pairs for text in (german, english)]
    assert len(sentences) == 40
    assert few.model == learn_vocabulary(sentences, kind, 40, 1.0).model
    assert few.model != learned(text_config(tmp_path, **changes)).model


def test_characters_too_rare_for_the_config_are_no_pieces(tmp_path):
    write_corpus(tmp_path)
    every, most = (
        learned(text_config(tmp_path, vocabulary_size=40, character_coverage=share))
        for share in (1.0, 0.98)
    )
    letters = [*"abcdefghijklmnorstuw"]
    unknown = [
        sum(UNKNOWN_ID in ids for ids in vocabulary.encode(letters)) for vocabulary in (every, most)
    ]
    assert unknown[0] < unknown[1]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_corpus_in_lower_case_teaches_pieces_in_lower_case(tmp_path, kind):
    write_corpus(tmp_path)
    config = text_config(tmp_path, vocabulary_kind=kind, vocabulary_size=40, lowercase=True)
    small, large = learned(config).encode(["the cat", "THE Cat"])
    assert small == large and UNKNOWN_ID not in small


def test_words_may_be_given_in_parts(tmp_path, monkeypatch):
    write_corpus(tmp_path)
    whole = learned(text_config(tmp_path))
    monkeypatch.setattr(teaching, "_MAX_WORDS_KEPT", 4)
    assert learned(text_config(tmp_path)).model == whole.model


def test_no_word_is_counted_twice():
    chunks = [
        NumberedChunk(0, 1, ExampleChunk([("a b a", "c")])),
        NumberedChunk(1, 1, ExampleChunk([("b", "d \u2028d")])),
    ]
    count = CountWords(Sample(2, 2, 2, False))
    given_first = [count(chunk) for chunk in chunks]
    rest = count.rest()
    assert [(given.num_examples, given.words) for given in given_first] == [(1, ""), (1, "")]
    assert dict(zip(rest.words.split(), rest.counts.tolist(), strict=True)) == {
        **{"a": 2, "b": 2, "c": 1, "d": 2}
    }
    assert count.rest().words == ""


def test_what_will_be_dropped_teaches_nothing(tmp_path):
    write_corpus(tmp_path)
    expected = learned(text_config(tmp_path))
    odd = [("zebra zebra zebra", " "), ("q\0uagga", "Quagga"), ("\x07", "x")]
    write_pairs(tmp_path, "train", [*sentence_pairs(80), *odd])
    assert learned(text_config(tmp_path), (83,)).model == expected.model


def test_progress_is_told_by_the_example(tmp_path):
    write_corpus(tmp_path)
    for kind in ("bpe", "unigram"):
        told = []
        config = text_config(tmp_path, vocabulary_kind=kind, vocabulary_size=40)
        learned(config, examples_per_chunk=30, progress=told.append)
        assert told == [30, 60, 80]
