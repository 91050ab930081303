"""SentencePiece vocabularies: what they keep, what they promise and what they refuse."""

import collections
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece

from t2t_jax.data.vocabulary import vocabulary as vocabulary_module
from t2t_jax.data.vocabulary.vocabulary import (
    END_ID,
    MASK_ID,
    PAD_ID,
    START_ID,
    UNKNOWN_ID,
    Vocabulary,
    learn_from_words,
    learn_vocabulary,
)
from tests.data.text_corpus import sentence_pairs

SENTENCES = [sentence for pair in sentence_pairs(60) for sentence in pair]
SIZES = {"bpe": 60, "unigram": 40, "word": 1_000, "char": 1_000}


@pytest.fixture(params=SIZES)
def kind(request):
    return request.param


@pytest.fixture
def vocabulary(kind):
    return learn_vocabulary(SENTENCES, kind, SIZES[kind], 1.0)


def test_reserved_ids_are_padding_start_end_and_unknown(vocabulary):
    assert (PAD_ID, START_ID, END_ID, UNKNOWN_ID) == (0, 1, 2, 3)
    assert [vocabulary.piece(i) for i in range(4)] == ["<pad>", "<s>", "</s>", "<unk>"]


def test_a_vocabulary_with_a_mask_reserves_one_id_more(kind, vocabulary):
    with_mask = learn_vocabulary(SENTENCES, kind, SIZES[kind] + 1, 1.0, with_mask=True)
    assert with_mask.has_mask and not vocabulary.has_mask
    assert with_mask.fingerprint != vocabulary.fingerprint
    assert (MASK_ID, with_mask.piece(MASK_ID)) == (4, "<mask>")
    pieces = {with_mask.piece(i) for i in range(MASK_ID + 1, with_mask.size)}
    assert pieces == {vocabulary.piece(i) for i in range(MASK_ID, vocabulary.size)}
    (ids,) = with_mask.encode(["the <mask> cat"])
    assert MASK_ID not in ids  # it is text here
    (cat,) = with_mask.encode(["the cat"])
    assert with_mask.decode([[*cat, MASK_ID]]) == ["the cat"]


def test_learned_sentences_survive_encoding_and_decoding(vocabulary):
    ids = vocabulary.encode(SENTENCES)
    assert min(min(sentence) for sentence in ids) > UNKNOWN_ID
    assert max(max(sentence) for sentence in ids) < vocabulary.size
    assert vocabulary.decode(ids) == SENTENCES


def test_text_is_kept_as_written():
    # Composed and decomposed umlaut, a ligature, full-width letters, capitals: all stay.
    text = "Übung U\u0308bung ﬁn ＡＢ ½ … „Straße“"
    vocabulary = learn_vocabulary([text], "char", 100, 1.0)
    assert vocabulary.decode(vocabulary.encode([text])) == [text]


def test_every_run_of_white_space_becomes_one_space(vocabulary):
    text = "  the\tcat \u2028 sees\u00a0 the  duck\n"
    assert vocabulary.decode(vocabulary.encode([text])) == ["the cat sees the duck"]


def test_blank_sentences_have_no_ids_and_come_back_empty(vocabulary):
    assert vocabulary.encode(["", " \t\u2028 "]) == [[], []]
    assert vocabulary.decode([[], [END_ID, 5]]) == ["", ""]
    assert vocabulary.encode([]) == [] and vocabulary.decode([]) == []


def test_decoding_stops_at_the_end_and_leaves_out_reserved_ids(vocabulary):
    (ids,) = vocabulary.encode(["the cat"])
    padded = [START_ID, *ids, END_ID, *ids, PAD_ID]
    assert vocabulary.decode([padded, [PAD_ID, *ids]]) == ["the cat", "the cat"]


def test_an_unknown_letter_is_written_as_a_question_mark(vocabulary):
    (ids,) = vocabulary.encode(["ж"])
    assert UNKNOWN_ID in ids
    assert vocabulary.decode([ids]) == ["⁇"]


def test_text_that_looks_like_a_reserved_piece_is_text(vocabulary):
    (ids,) = vocabulary.encode(["<s> </s> <pad>"])
    assert not {PAD_ID, START_ID, END_ID} & set(ids)


def test_size_is_exact_for_bpe_and_unigram_and_a_bound_for_word_and_char():
    sizes = {kind: learn_vocabulary(SENTENCES, kind, SIZES[kind], 1.0).size for kind in SIZES}
    assert (sizes["bpe"], sizes["unigram"]) == (60, 40)
    words = {word for sentence in SENTENCES for word in sentence.split()}
    assert sizes["word"] == 4 + len(words)
    # The space is a character too.
    assert sizes["char"] == 4 + len(set("".join(SENTENCES)))
    assert learn_vocabulary(SENTENCES, "word", 10, 1.0).size == 10


def test_the_same_sentences_give_the_same_fingerprint_in_another_process(kind, vocabulary):
    program = (
        "from tests.data.vocabulary.test_vocabulary import *;"
        f"print(learn_vocabulary(iter(SENTENCES), {kind!r}, {SIZES[kind]}, 1.0).fingerprint)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == vocabulary.fingerprint, run.stderr
    assert len(vocabulary.fingerprint) == 16


def test_other_sentences_give_another_fingerprint(kind, vocabulary):
    other = learn_vocabulary([*SENTENCES, "a zebra"], kind, SIZES[kind], 1.0)
    assert other.fingerprint != vocabulary.fingerprint


def test_saving_loading_and_pickling_change_nothing(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "vocabulary.model")
    loaded = Vocabulary.load(tmp_path / "vocabulary.model")
    for copy in (loaded, pickle.loads(pickle.dumps(vocabulary))):
        assert copy.fingerprint == vocabulary.fingerprint
        assert copy.encode(SENTENCES) == vocabulary.encode(SENTENCES)


def test_learning_prints_nothing(capfd):
    learn_vocabulary(SENTENCES, "unigram", 40, 1.0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_large_a_vocabulary_names_the_largest_that_can_be_learned(kind):
    with pytest.raises(ValueError, match=f"vocabulary_size=5000 .* {kind} .* at most") as error:
        learn_vocabulary(SENTENCES, kind, 5_000, 1.0)
    largest = int(str(error.value).split()[-2])
    assert learn_vocabulary(SENTENCES, kind, largest, 1.0).size == largest


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_small_a_vocabulary_names_the_smallest(kind):
    with pytest.raises(ValueError, match=r"vocabulary_size=10 is too small.* at least (\d+)"):
        learn_vocabulary(SENTENCES, kind, 10, 1.0)


@pytest.mark.parametrize("sentences", [[], ["", " \t"]])
def test_no_text_is_told(sentences):
    with pytest.raises(ValueError, match="no sentence to learn a vocabulary from"):
        learn_vocabulary(sentences, "bpe", 60, 1.0)


def test_an_error_of_the_sentences_arrives_as_it_was_raised():
    def sentences():
        yield from SENTENCES
        raise ValueError("train.en, line 7: not UTF-8")

    with pytest.raises(ValueError, match="^train.en, line 7: not UTF-8$"):
        learn_vocabulary(sentences(), "bpe", 60, 1.0)


def test_a_model_with_other_reserved_ids_is_refused():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=40, minloglevel=2
    )
    with pytest.raises(ValueError, match="padding, start, end and unknown ids are"):
        Vocabulary(model.getvalue())


def test_a_file_that_is_no_vocabulary_is_told_with_its_name(tmp_path):
    with pytest.raises(ValueError, match=r"no vocabulary at .*nowhere.model"):
        Vocabulary.load(tmp_path / "nowhere.model")
    (tmp_path / "junk.model").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"junk.model: these bytes are no SentencePiece model"):
        Vocabulary.load(tmp_path / "junk.model")


def whole_sentences(kind, size, character_coverage):
    """The model that SentencePiece learns when it counts the words itself."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        character_coverage=character_coverage,
        hard_vocab_limit=kind == "bpe",
        pad_id=PAD_ID,
        bos_id=START_ID,
        eos_id=END_ID,
        unk_id=UNKNOWN_ID,
        control_symbols=[],
        normalization_rule_name="identity",
        max_sentence_length=1 << 20,
        num_threads=4,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.mark.parametrize("character_coverage", [1.0, 0.98])
@pytest.mark.parametrize("kind", ["bpe", "word", "char"])
def test_counted_words_give_the_very_model_of_the_sentences(kind, character_coverage):
    counts = collections.Counter(word for sentence in SENTENCES for word in sentence.split())
    size = SIZES[kind]
    learned = learn_from_words(counts, kind, size, character_coverage)
    assert learned.model == whole_sentences(kind, size, character_coverage)
    backwards = dict(reversed(counts.items()))
    assert learn_from_words(backwards, kind, size, character_coverage).model == learned.model


def test_in_lower_case_capitals_make_no_difference(kind):
    loud = [sentence.upper() for sentence in SENTENCES]
    learned = learn_vocabulary(loud, kind, SIZES[kind], 1.0, lowercase=True)
    quiet = learn_vocabulary(SENTENCES, kind, SIZES[kind], 1.0, lowercase=True)
    assert learned.model == quiet.model
    mixed = [each for pair in zip(loud, SENTENCES, strict=True) for each in pair]
    of_mixed = learn_vocabulary(mixed, kind, SIZES[kind], 1.0, lowercase=True)
    pieces = {of_mixed.piece(number) for number in range(4, of_mixed.size)}
    assert pieces == {piece.lower() for piece in pieces}
    ids = learned.encode(loud)
    assert ids == learned.encode(SENTENCES) and not any(UNKNOWN_ID in each for each in ids)
    assert learned.decode(ids) == [" ".join(each.lower().split()) for each in SENTENCES]
    of_words = [learned.encode_word(word) for word in loud[0].split()]
    assert learned.is_word_by_word == (kind in ("bpe", "char"))
    if learned.is_word_by_word:
        assert sum(of_words, []) == ids[0]


def test_lower_case_is_pythons_letter_by_letter():
    text = "STRAẞE İ ΣΟΦΟΣ ﬁ Ａ½ Éé ǅ"
    learned = learn_vocabulary([text], "char", 60, 1.0, lowercase=True)
    (back,) = learned.decode(learned.encode([text]))
    assert back == "".join(letter.lower() for letter in text) and "ß" in back and "σοφοσ" in back


def test_words_of_a_hundred_thousand_letters_teach_nothing(kind):
    long = ["x" * 100_000, "cat" * 50_000]
    sentences = [*long, *SENTENCES[:-1], f"{long[0]} {SENTENCES[-1]}"]
    learned = learn_vocabulary(sentences, kind, SIZES[kind], 1.0)
    assert learned.model == learn_vocabulary(SENTENCES, kind, SIZES[kind], 1.0).model


def test_of_too_many_words_the_frequent_teach_and_the_rare_give_their_letters(monkeypatch):
    monkeypatch.setattr(vocabulary_module, "_MAX_BPE_CHARACTERS", 100)
    rare = {f"{chr(0x4E00 + number)}abc": 1 for number in range(40)}
    counts = rare | {"zebra": 5, "zebu": 3, "abc": 2}
    learned = learn_from_words(counts, "bpe", 70, 1.0)
    pieces = {learned.piece(number) for number in range(learned.size)}
    assert "▁zebra" in pieces
    assert {word[0] for word in rare} < pieces
    # 22 rare words of 4 letters are left beside 12 letters of frequent ones, from all places.
    taken = vocabulary_module._most_frequent(list(rare), rare, np.full(40, 4))
    assert taken.sum() == 25 and np.diff(np.flatnonzero(taken)).max() <= 3
    few = {"abc": 1, "abd": 1}
    assert learn_from_words(few, "bpe", 9, 1.0).model == learn_vocabulary(few, "bpe", 9, 1.0).model
