"""Tokenizers of other libraries, used as our vocabulary."""

import json
import pickle

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from t2t_jax.data.vocabulary.vocabulary import END_ID, MASK_ID, PAD_ID, START_ID, UNKNOWN_ID
from t2t_jax.interop.vocabulary import SILENT, PretrainedVocabulary, Rows  # noqa: E402
from tests.interop import tokenizers  # noqa: E402

pytestmark = pytest.mark.parity
THEIRS = 6
MARIAN = Rows(THEIRS, (5, 5, 0, 1))  # starts with its padding
GPT2 = Rows(THEIRS, (None, 5, 5, None))
BERT = Rows(THEIRS, (0, 3, 4, 2, 1))


def vocabulary(directory, kind):
    save = getattr(tokenizers, f"save_{kind}_tokenizer")
    num_tokens = save(directory)
    (directory / "config.json").write_text(json.dumps({"model_type": kind}))
    last = num_tokens - 1
    reserved = {
        "marian": (last, last, 0, 1),
        "gpt2": (None, last, last, None),
        "bert": (0, 3, 4, 2, 5),
    }
    return PretrainedVocabulary(directory, Rows(num_tokens, reserved[kind]))


@pytest.mark.parametrize("rows", [MARIAN, GPT2, BERT])
def test_every_row_of_theirs_has_one_id_of_ours(rows):
    assert sorted(rows.ours) == sorted(np.flatnonzero(~rows.is_silent))
    np.testing.assert_array_equal(rows.theirs[rows.ours], np.arange(THEIRS))


@pytest.mark.parametrize("rows", [MARIAN, GPT2, BERT])
def test_reordered_tables_and_biases_give_their_probabilities(rows):
    rng = np.random.default_rng(0)
    table, bias = rng.normal(size=(THEIRS, 3)).astype("f"), rng.normal(size=THEIRS).astype("f")
    x = rng.normal(size=3).astype("f")
    theirs = np.exp(table @ x + bias)
    ours = np.exp(rows.table(table) @ x + rows.bias(bias))
    np.testing.assert_allclose((ours / ours.sum())[rows.ours], theirs / theirs.sum(), rtol=1e-6)


def test_of_two_ids_for_one_row_the_end_speaks_first_and_padding_last():
    assert np.flatnonzero(GPT2.is_silent).tolist() == [PAD_ID, START_ID, UNKNOWN_ID]
    assert GPT2.ours[5] == END_ID
    assert np.flatnonzero(MARIAN.is_silent).tolist() == [PAD_ID]
    assert MARIAN.bias(np.zeros(THEIRS, "f"))[PAD_ID] == SILENT


@pytest.mark.parametrize("kind", ["gpt2", "bert", "marian"])
def test_tokens_are_theirs_under_our_ids(tmp_path, kind):
    from transformers import AutoTokenizer

    ours, theirs = vocabulary(tmp_path, kind), AutoTokenizer.from_pretrained(tmp_path)
    texts = ["The dog sleeps.", "a cat?", "§ read"]
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    found = ours.encode(texts)
    assert [[int(ours.rows.theirs[i]) for i in ids] for ids in found] == expected
    assert ours.decode(found) == [theirs.decode(ids, skip_special_tokens=True) for ids in expected]
    assert [ours.piece(i) for i in found[0]] == theirs.convert_ids_to_tokens(expected[0])


def test_marian_has_a_tokenizer_for_each_language(tmp_path):
    ours = vocabulary(tmp_path, "marian")
    german = "Der Hund schläft im Garten."
    assert UNKNOWN_ID in ours.encode([german])[0]
    assert UNKNOWN_ID not in ours.encode_target([german])[0]
    assert ours.decode(ours.encode_target([german])) == [german]


def test_special_tokens_have_our_ids(tmp_path):
    ours = vocabulary(tmp_path, "bert")
    assert ours.encode(["the [MASK] §"])[0][1:] == [MASK_ID, UNKNOWN_ID]
    assert ours.has_mask
    assert ours.decode([[START_ID, *ours.encode(["the dog"])[0], END_ID, 9, 9]]) == ["the dog"]


@pytest.mark.parametrize("kind", ["gpt2", "bert", "marian"])
def test_blank_sentences_have_no_tokens(tmp_path, kind):
    ours = vocabulary(tmp_path, kind)
    assert ours.encode(["", "  "]) == [[], []]
    assert ours.encode([]) == []
    assert ours.decode([[], [END_ID, 7]]) == ["", ""]


def test_ids_without_a_token_have_some_name_and_no_text(tmp_path):
    ours = vocabulary(tmp_path, "gpt2")
    assert ours.piece(UNKNOWN_ID) == f"<{UNKNOWN_ID}>"
    assert ours.decode([[UNKNOWN_ID]]) == [""]


@pytest.mark.parametrize("kind", ["gpt2", "bert", "marian"])
def test_a_saved_vocabulary_is_the_same(tmp_path, kind):
    (tmp_path / "a").mkdir()
    before = vocabulary(tmp_path / "a", kind)
    before.save(tmp_path / "b")
    for after in (PretrainedVocabulary.load(tmp_path / "b"), pickle.loads(pickle.dumps(before))):
        assert after.fingerprint == before.fingerprint
        assert after.size == before.size
        assert after.encode(["The dog"]) == before.encode(["The dog"])


def test_a_kill_leaves_no_half_of_a_vocabulary(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    before = vocabulary(tmp_path / "a", "gpt2")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("t2t_jax.interop.vocabulary.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            before.save(tmp_path / "b")
    assert not (tmp_path / "b").exists()
    before.save(tmp_path / "b")
    assert PretrainedVocabulary.load(tmp_path / "b").fingerprint == before.fingerprint


def test_another_tokenizer_has_another_fingerprint(tmp_path):
    ours = vocabulary(tmp_path, "bert")
    before = ours.fingerprint
    path = tmp_path / "vocab.txt"
    path.write_text(path.read_text().replace("dog", "cow"))
    assert ours.fingerprint != before


def test_rows_beyond_the_tokenizer_are_no_pieces(tmp_path):
    ours = vocabulary(tmp_path, "bert")
    rounded_up = PretrainedVocabulary(tmp_path, Rows(ours.rows.num_theirs + 2, ours.rows.reserved))
    assert rounded_up.size == ours.size == ours.rows.num_theirs


def test_more_tokens_than_rows_are_told(tmp_path):
    ours = vocabulary(tmp_path, "bert")
    with pytest.raises(ValueError, match="18 tokens, but the model only 17 rows"):
        PretrainedVocabulary(tmp_path, Rows(17, ours.rows.reserved))


def test_a_directory_without_a_tokenizer_is_told(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    with pytest.raises(ValueError, match="holds no tokenizer that can be read"):
        PretrainedVocabulary(tmp_path, MARIAN)


def test_a_place_without_a_saved_vocabulary_is_told(tmp_path):
    with pytest.raises(ValueError, match="no vocabulary at"):
        PretrainedVocabulary.load(tmp_path)


@pytest.mark.parametrize("text", ["{}", '{"num_theirs": 5, "reserved": 1}'])
def test_a_damaged_file_of_rows_is_told(tmp_path, text):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(ValueError, match="rows.json is damaged"):
        PretrainedVocabulary.load(tmp_path)


def test_a_special_token_beyond_the_rows_of_the_model_is_refused():
    with pytest.raises(
        ValueError, match=r"special token has id 9, but the model has only 9 rows \(0 to 8\)"
    ):
        Rows(9, (9, 0, 0, None))
