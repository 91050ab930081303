"""Token ids on disk: what is kept, what is counted, and when they are remade."""

import dataclasses
import json
import os

import numpy as np
import pytest
import sentencepiece

from t2t_jax.data.prepare.prepared import prepare
from t2t_jax.data.vocabulary.vocabulary import END_ID, START_ID, learn_vocabulary
from tests.data.text_corpus import (
    labelled_sentences,
    sentence_pairs,
    text_config,
    write_labelled,
    write_pairs,
)


def silent(line: str) -> None:
    """Takes the log lines nobody asks for."""


def decoded(prepared, split):
    arrays = prepared.splits[split]
    texts = []
    for ids, offsets in (arrays[:2], arrays[2:4]):
        sentences = [ids[start:stop] for start, stop in zip(offsets, offsets[1:], strict=False)]
        assert all(sentence[-1] == END_ID for sentence in sentences)
        texts.append(prepared.vocabulary.decode([sentence.tolist() for sentence in sentences]))
    return list(zip(*texts, strict=True))


def test_every_sentence_can_be_read_back_from_disk(directory):
    prepared = prepare(text_config(directory), silent)
    pairs = sentence_pairs(120)
    assert decoded(prepared, "train") == pairs[:80]
    assert decoded(prepared, "dev") == pairs[80:100]
    assert decoded(prepared, "test") == pairs[100:]


def test_arrays_are_small_memory_mapped_and_read_only(directory):
    train = prepare(text_config(directory), silent).splits["train"]
    assert train.source_ids.dtype == np.uint16 and train.source_offsets.dtype == np.int64
    assert isinstance(train.source_ids.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        train.source_ids[0] = 1
    assert train.num_pairs == 80
    assert train.target_lengths.sum() == len(train.target_ids)


def test_blank_pairs_are_dropped_everywhere_and_long_ones_from_train(directory):
    long_pair = ("the cat " * 50, "die Katze " * 50)
    odd = [("the cat", ""), (" \t", "die Katze"), ("", ""), long_pair, ("the cow", "die Kuh")]
    write_pairs(directory, "train", [*sentence_pairs(80), *odd])
    write_pairs(directory, "dev", odd)
    lines = []
    prepared = prepare(text_config(directory), lines.append)
    assert "train: 81 pairs kept; dropped: 3 blank, 1 over 100 tokens" in lines
    assert "dev: 2 pairs kept; dropped: 3 blank" in lines
    assert "test: 20 pairs kept" in lines
    assert prepared.manifest["splits"]["train"]["dropped"] == {"blank": 3, "too_long": 1}
    assert prepared.manifest["splits"]["dev"]["dropped"] == {"blank": 3}
    assert decoded(prepared, "dev")[1] == ("the cow", "die Kuh")


def test_the_length_limit_counts_the_end_token_of_either_side(directory):
    longest = max(prepare(text_config(directory), silent).splits["train"].target_lengths)
    exact = prepare(text_config(directory, max_length=int(longest)), silent)
    shorter = prepare(text_config(directory, max_length=int(longest) - 1), silent)
    assert exact.splits["train"].num_pairs == 80
    assert max(shorter.splits["train"].target_lengths) < longest
    assert 0 < shorter.splits["train"].num_pairs < 80


def test_the_second_call_loads_what_the_first_has_written(directory):
    lines = []
    first = prepare(text_config(directory), lines.append)
    files = [first.directory / name for name in first.manifest["files"]]
    written = [file.stat().st_mtime_ns for file in files]
    second = prepare(text_config(directory), lines.append)
    assert lines[-1] == f"nothing has changed: prepared data loaded from {first.directory}"
    assert lines[1:4] == lines[5:8]  # what was kept is told again
    assert second.fingerprint == first.fingerprint
    assert [file.stat().st_mtime_ns for file in files] == written
    assert os.listdir(directory / "cache") == [first.directory.name]


def test_the_manifest_tells_direction_counts_and_hashes(directory):
    prepared = prepare(text_config(directory), silent)
    manifest = json.loads((prepared.directory / "manifest.json").read_text())
    assert manifest == prepared.manifest
    assert manifest["direction"] == "en-de"
    assert manifest["vocabulary_fingerprint"] == prepared.vocabulary.fingerprint
    assert manifest["splits"]["train"]["pairs"] == 80
    assert manifest["splits"]["train"]["source_tokens"] == len(prepared.splits["train"].source_ids)
    assert len(manifest["inputs"]["train.en"]) == 64
    assert manifest["config"]["vocabulary_size"] == 60
    notes = {"manifest.json", "checked.json"}
    assert set(manifest["files"]) == set(os.listdir(prepared.directory)) - notes


def test_a_changed_input_makes_a_new_directory(directory):
    first = prepare(text_config(directory), silent)
    write_pairs(directory, "dev", sentence_pairs(120)[81:101])
    second = prepare(text_config(directory), silent)
    assert second.directory != first.directory
    assert second.fingerprint != first.fingerprint
    assert second.vocabulary.fingerprint == first.vocabulary.fingerprint


def test_both_directions_learn_the_same_vocabulary(directory):
    forth = prepare(text_config(directory), silent)
    back = prepare(text_config(directory, source_language="de", target_language="en"), silent)
    assert forth.vocabulary.fingerprint == back.vocabulary.fingerprint
    np.testing.assert_array_equal(forth.splits["train"].source_ids, back.splits["train"].target_ids)


@pytest.mark.parametrize("name", ["train.source_ids.bin", "dev.target_offsets.bin"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_file_is_refused_with_its_name(directory, name, damage):
    file = prepare(text_config(directory), silent).directory / name
    content = file.read_bytes()
    if damage == "truncated":
        file.write_bytes(content[:-2])
    elif damage == "flipped":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        file.unlink()
    with pytest.raises(ValueError, match=f"{name} .*: delete .* and prepare again"):
        prepare(text_config(directory), silent)


def test_a_directory_without_manifest_is_refused(directory):
    (prepare(text_config(directory), silent).directory / "manifest.json").unlink()
    with pytest.raises(ValueError, match="manifest.json cannot be read: delete"):
        prepare(text_config(directory), silent)


def test_no_flipped_bit_of_a_manifest_is_believed(directory):
    prepared = prepare(text_config(directory), silent)
    file = prepared.directory / "manifest.json"
    content = file.read_bytes()
    for place in range(0, len(content), 7):
        flipped = bytes([content[place] ^ 1 << place % 8])
        file.write_bytes(content[:place] + flipped + content[place + 1 :])
        with pytest.raises(ValueError, match=r"manifest.json .*: delete .* and prepare again"):
            prepare(text_config(directory), silent)
    file.write_bytes(content)
    assert prepare(text_config(directory), silent).manifest == prepared.manifest


def test_a_manifest_of_before_without_checksum_and_versions_is_read(directory):
    prepared = prepare(text_config(directory), silent)
    file = prepared.directory / "manifest.json"
    old = dict(prepared.manifest)
    del old["sha256"], old["made_with"]
    file.write_text(json.dumps(old))
    lines = []
    again = prepare(text_config(directory), lines.append)
    assert again.fingerprint == prepared.fingerprint
    assert len(lines) == 4  # three splits, and that nothing has changed


def test_another_version_of_what_makes_tokens_is_told_and_the_tokens_stay(directory, monkeypatch):
    prepared = prepare(text_config(directory), silent)
    here = sentencepiece.__version__
    assert prepared.manifest["made_with"] == {"sentencepiece": here}
    monkeypatch.setattr(sentencepiece, "__version__", "9.9")
    lines = []
    again = prepare(text_config(directory), lines.append)
    assert again.directory == prepared.directory
    assert lines[-2] == (
        f"prepared with sentencepiece {here}, but 9.9 is installed: the token ids stay as they "
        "are; only text read from now on, such as lines to translate, is tokenised by 9.9"
    )
    assert lines[-1].startswith("nothing has changed")


def test_nothing_stays_behind_when_preparing_fails(directory):
    with pytest.raises(ValueError, match="vocabulary_size=9000 is too large"):
        prepare(text_config(directory, vocabulary_size=9_000), silent)
    assert os.listdir(directory / "cache") == []


def test_a_mistake_in_the_last_split_is_told_before_anything_is_learned(directory):
    (directory / "test.de").write_bytes(b"\xff\n")
    lines = []
    with pytest.raises(ValueError, match="not UTF-8"):
        prepare(text_config(directory), lines.append)
    assert lines == [] and not (directory / "cache").exists()


def test_a_split_of_which_nothing_is_left_is_told(directory):
    write_pairs(directory, "dev", [("", "x"), ("y", "")])
    with pytest.raises(
        ValueError, match="nothing is left of the corpus: dev: 0 pairs kept; dropped: 2 bl"
    ):
        prepare(text_config(directory), silent)


def sides(split):
    """The ids of each example."""
    both = (split.source_ids, split.source_offsets), (split.target_ids, split.target_offsets)
    columns = [
        [ids[start:stop].tolist() for start, stop in zip(offsets, offsets[1:], strict=False)]
        for ids, offsets in both
    ]
    return list(zip(*columns, strict=True))


def test_a_language_model_has_a_target_alone(directory):
    for stem in ("train", "dev", "test"):
        (directory / f"{stem}.en").unlink()
    prepared = prepare(text_config(directory, task="language_modelling"), silent)
    ids = prepared.vocabulary.encode([german for _, german in sentence_pairs(120)[80:100]])
    assert sides(prepared.splits["dev"]) == [([], [*tokens, END_ID]) for tokens in ids]
    assert prepared.manifest["direction"] == "de" and prepared.classes == ()
    assert not prepared.splits["dev"].source_lengths.any()


def test_a_masked_language_model_has_the_same_sentence_twice_and_a_mask(directory):
    config = text_config(directory, task="masked_language_modelling", vocabulary_size=40)
    prepared = prepare(config, silent)
    ids = prepared.vocabulary.encode([english for english, _ in sentence_pairs(120)[80:100]])
    sentences = [[START_ID, *tokens, END_ID] for tokens in ids]
    assert sides(prepared.splits["dev"]) == [(sentence, sentence) for sentence in sentences]
    assert prepared.vocabulary.has_mask and prepared.manifest["direction"] == "en"


def test_a_classifier_has_sentences_and_the_numbers_of_their_classes(tmp_path):
    for stem in ("train", "dev", "test"):
        write_labelled(tmp_path, stem, [*labelled_sentences(12), (" ", "two")])
    lines = []
    config = text_config(tmp_path, task="classification", vocabulary_size=40)
    prepared = prepare(config, lines.append)
    assert prepared.classes == ("four", "one", "three", "two")
    examples = labelled_sentences(12)
    ids = prepared.vocabulary.encode([sentence for sentence, _ in examples])
    assert sides(prepared.splits["test"]) == [
        ([START_ID, *tokens, END_ID], [1 + prepared.classes.index(name)])
        for tokens, (_, name) in zip(ids, examples, strict=True)
    ]
    assert "train: 12 sentences kept; dropped: 1 blank" in lines
    assert prepare(config, silent).classes == prepared.classes
    # Other names for the same numbers are other data.
    for stem in ("train", "dev", "test"):
        write_labelled(tmp_path, stem, [(text, f"{name}!") for text, name in examples])
    renamed = prepare(config, silent)
    np.testing.assert_array_equal(
        renamed.splits["test"].target_ids, prepared.splits["test"].target_ids
    )
    assert renamed.fingerprint != prepared.fingerprint


def test_the_length_limit_counts_start_and_end(directory):
    config = text_config(directory, task="masked_language_modelling", vocabulary_size=40)
    longest = int(prepare(config, silent).splits["train"].source_lengths.max())
    limited = prepare(dataclasses.replace(config, max_length=longest - 1), silent)
    assert limited.splits["train"].source_lengths.max() < longest


def test_a_vocabulary_that_is_given_takes_the_place_of_one_that_is_learned(directory):
    config = text_config(directory, vocabulary_size=40)
    given = learn_vocabulary(["the cow sees die Kuh ."], "char", 30, 1.0)
    lines = []
    prepared = prepare(config, lines.append, given)
    assert prepared.vocabulary is given
    assert not any("learned" in line for line in lines)
    first = prepared.splits["test"].source_ids[: prepared.splits["test"].source_offsets[1]]
    (expected,) = given.encode([sentence_pairs(120)[100][0]])
    assert first.tolist() == [*expected, END_ID]
    # It is found again whatever the config says of a vocabulary, and is not that of the config.
    other = dataclasses.replace(config, vocabulary_size=41)
    assert prepare(other, silent, given).directory == prepared.directory
    assert prepare(config, silent).directory != prepared.directory


def test_masked_language_modelling_needs_a_mask_in_a_vocabulary_that_is_given(directory):
    config = text_config(directory, task="masked_language_modelling")
    given = learn_vocabulary(["the cow sees"], "char", 30, 1.0)
    with pytest.raises(ValueError, match="needs a vocabulary with a mask token"):
        prepare(config, silent, given)
