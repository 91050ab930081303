"""Sentences become ids: always the same as the vocabulary's own."""

import io
import pickle

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from t2t_jax.data.corpora.embedded_corpus import ExampleChunk
from t2t_jax.data.prepare import tokenise
from t2t_jax.data.prepare.tokenise import Tokenise, make_encode
from t2t_jax.data.vocabulary.vocabulary import (
    END_ID,
    PAD_ID,
    START_ID,
    UNKNOWN_ID,
    Vocabulary,
    learn_vocabulary,
)
from tests.data.text_corpus import sentence_pairs

SENTENCES = [sentence for pair in sentence_pairs(60) for sentence in pair]
SIZES = {"bpe": 60, "unigram": 40, "word": 1_000, "char": 1_000}
VOCABULARIES = {kind: learn_vocabulary(SENTENCES, kind, SIZES[kind], 1.0) for kind in SIZES}
# Letters of the text, unknown ones, SentencePiece's own signs, all kinds of space.
PARTS = ["the", "cat", "Katze", "e", "s", "ж", "漢", "ö", "▁", "▅", "<s>", "</s>", "<unk>", "\0"]
SPACES = [" ", "  ", "\t", "\u00a0", "\u2028", "\u3000", "\x1f", "\r"]
TEXTS = st.lists(st.sampled_from(PARTS + SPACES), max_size=12).map("".join)


def unpacked(encoded, dtype):
    return [np.frombuffer(ids, dtype).tolist() for ids in encoded]


@pytest.mark.parametrize("kind", SIZES)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5))
def test_ids_are_those_of_the_whole_sentence(kind, texts):
    encode = make_encode(VOCABULARIES[kind], "uint16")
    expected = VOCABULARIES[kind].encode(texts)
    assert unpacked(encode(texts), "uint16") == expected
    assert unpacked(encode(texts), "uint16") == expected  # of words it now knows


def test_only_byte_pairs_and_characters_are_found_word_by_word():
    word_by_word = {kind for kind in SIZES if VOCABULARIES[kind].is_word_by_word}
    assert word_by_word == {"bpe", "char"}


@pytest.mark.parametrize(
    "options",
    [
        {"normalization_rule_name": "nmt_nfkc"},
        {"normalization_rule_name": "identity", "split_by_whitespace": False},
        {"normalization_rule_name": "identity", "treat_whitespace_as_suffix": True},
        {"normalization_rule_name": "identity", "add_dummy_prefix": False},
    ],
)
def test_a_model_made_elsewhere_is_asked_for_whole_sentences(options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        model_type="bpe",
        vocab_size=100,
        pad_id=PAD_ID,
        bos_id=START_ID,
        eos_id=END_ID,
        unk_id=UNKNOWN_ID,
        minloglevel=2,
        **options,
    )
    vocabulary = Vocabulary(model.getvalue())
    assert not vocabulary.is_word_by_word
    encode = make_encode(vocabulary, "int32")
    assert unpacked(encode(SENTENCES), "int32") == vocabulary.encode(SENTENCES)


def test_few_words_are_remembered_and_none_that_are_long(monkeypatch):
    monkeypatch.setattr(tokenise, "_MAX_WORDS_REMEMBERED", 3)
    monkeypatch.setattr(tokenise, "_MAX_LETTERS_REMEMBERED", 4)
    words = tokenise._IdsOfWords(VOCABULARIES["bpe"], "uint16")
    for word in ("Katze", "the", "cat", "the", "cow", "duck"):
        words[word]
    assert list(words) == ["the", "cat", "cow"]
    encode = make_encode(VOCABULARIES["bpe"], "uint16")
    assert unpacked(encode(SENTENCES), "uint16") == VOCABULARIES["bpe"].encode(SENTENCES)


@pytest.mark.parametrize("kind", SIZES)
def test_a_word_of_a_hundred_thousand_letters_is_no_trouble(kind):
    text = "cat" * 33_333 + " cat"
    (ids,) = make_encode(VOCABULARIES[kind], "uint16")([text])
    assert unpacked([ids], "uint16") == VOCABULARIES[kind].encode([text])


class Whole(Vocabulary):
    """Another library's: a sentence is a number, of which each language has its own."""

    def encode(self, sentences):
        return [[10 + len(sentence)] for sentence in sentences]

    def encode_target(self, sentences):
        return [[20 + len(sentence)] for sentence in sentences]


def made(task, examples, vocabulary=VOCABULARIES["bpe"], classes=(), max_length=None):
    result = Tokenise(task, vocabulary, classes, max_length, "uint16")(ExampleChunk(examples))
    sides = []
    for side in (result.source, result.target):
        ids = np.frombuffer(side.ids, np.uint16)
        assert len(ids) == side.lengths.sum()
        sides.append([part.tolist() for part in np.split(ids, np.cumsum(side.lengths)[:-1])])
    return result, list(zip(*sides, strict=True))


def test_another_librarys_vocabulary_tells_the_languages_apart():
    vocabulary = Whole(VOCABULARIES["bpe"].model)
    _, pairs = made("translation", [("abc", "ab")], vocabulary)
    assert pairs == [([13, END_ID], [22, END_ID])]


def test_reasons_are_counted_and_lengths_include_the_end():
    examples = [
        ("the cat", "die Katze"),
        (" ", "die Katze"),
        ("the \0 cat", "die Katze"),
        ("the", "die Katze " * 50),
        ("a", ""),
    ]
    lengths = [len(ids) + 1 for ids in VOCABULARIES["bpe"].encode(list(examples[0]))]
    result, pairs = made("translation", examples, max_length=max(lengths))
    assert result.num_examples == 5
    assert result.dropped == {"blank": 2, "control characters": 1, "too_long": 1}
    assert [(len(source), len(target)) for source, target in pairs] == [tuple(lengths)]
    result, _ = made("translation", examples, max_length=max(lengths) - 1)
    assert result.dropped["too_long"] == 2 and len(result.source.lengths) == 0


def test_ids_above_sixteen_bits_are_kept():
    vocabulary = Whole(VOCABULARIES["bpe"].model)
    tokenise = Tokenise("language_modelling", vocabulary, (), None, "int32")
    result = tokenise(ExampleChunk([("x" * 100_000,)]))
    assert np.frombuffer(result.target.ids, np.int32).tolist() == [100_010, END_ID]
    assert result.source.ids == b"" and result.source.lengths.tolist() == [0]


def test_what_tokenises_can_be_sent_to_another_process():
    tokenise = Tokenise("classification", VOCABULARIES["char"], ("a", "b"), 50, "uint16")
    chunk = ExampleChunk([("the cat", "b")])
    there, here = (each(chunk) for each in (pickle.loads(pickle.dumps(tokenise)), tokenise))
    assert there.source.ids == here.source.ids
    assert np.frombuffer(there.target.ids, np.uint16).tolist() == [2]


def test_what_is_kept_is_known_without_the_ids():
    pairs = [("the cat", "die Katze"), (" ", "die"), ("the " * 40, "die"), ("a\0", "ein")]
    to_ids = Tokenise("translation", VOCABULARIES["bpe"], (), 30, "uint16")
    assert to_ids.keeps(pairs) == [True, False, False, False]
    tokenised = to_ids(ExampleChunk(pairs))
    assert tokenised.dropped == {"blank": 1, "too_long": 1, "control characters": 1}
    assert len(tokenised.source.lengths) == 1
