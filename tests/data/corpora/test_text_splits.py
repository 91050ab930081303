"""Splits are found by their usual names, and never guessed."""

import re

import pytest

from t2t_jax.data.corpora import corpus
from t2t_jax.data.corpora.text_splits import find_names, holds_text
from tests.data.text_corpus import sentence_pairs, text_config, write_labelled, write_pairs

PAIRS = sentence_pairs(3)


@pytest.mark.parametrize("dev", ["val", "valid", "validation", "dev"])
@pytest.mark.parametrize("test", ["test", "test2016", "test_2016_flickr"])
@pytest.mark.parametrize("gz", ["", ".gz"])
def test_splits_of_usual_names_are_found(dev, test, gz, tmp_path):
    for stem in ("train", dev, test, "train.clean", "notes"):
        for language in ("en", "de"):
            (tmp_path / f"{stem}.{language}{gz}").touch()
    config = text_config(tmp_path, train="tr", dev="d", test="t")
    assert find_names(config, (), "data") == {"train": "train", "dev": dev, "test": test}


def test_the_names_of_the_config_come_first(tmp_path):
    for stem in ("train", "dev", "val", "test", "test2016"):
        write_pairs(tmp_path, stem, PAIRS)
    assert find_names(text_config(tmp_path), (), "data") == {}


def test_of_two_candidates_none_is_guessed(tmp_path):
    for stem in ("train", "dev", "test2016", "test2017"):
        write_pairs(tmp_path, stem, PAIRS)
    sentence = (
        f"{tmp_path} has no test.en for test, but test2016, test2017: say which, such as "
        "--config.data.test=test2016"
    )
    with pytest.raises(ValueError, match=re.escape(sentence)):
        find_names(text_config(tmp_path), (), "--config.data")


def test_a_name_that_was_given_stays(tmp_path):
    for stem in ("train", "dev", "test2016", "test2017"):
        write_pairs(tmp_path, stem, PAIRS)
    assert find_names(text_config(tmp_path, test="mine"), ["test"], "data") == {}


def test_half_a_split_is_no_reason_to_take_another(tmp_path):
    for stem in ("train", "dev", "test2016"):
        write_pairs(tmp_path, stem, PAIRS)
    (tmp_path / "test.en").touch()
    assert find_names(text_config(tmp_path), (), "data") == {}


def test_a_split_that_lacks_a_language_is_none(tmp_path):
    for stem in ("train", "dev", "test2016"):
        write_pairs(tmp_path, stem, PAIRS)
    (tmp_path / "test2016.de").unlink()
    assert find_names(text_config(tmp_path), (), "data") == {}


def test_files_with_labels_are_found(tmp_path):
    for stem in ("train", "valid", "test2016"):
        write_labelled(tmp_path, stem, [("a dog", "one")])
    config = text_config(tmp_path, task="classification")
    assert find_names(config, (), "data") == {"dev": "valid", "test": "test2016"}


def test_train_of_a_mixture_is_looked_for_in_its_corpora(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_pairs(tmp_path / name, "train", PAIRS)
    for stem in ("val", "test"):
        write_pairs(tmp_path, stem, PAIRS)
    mixture = f"{tmp_path}/a=1,{tmp_path}/b=2"
    config = text_config(tmp_path, train="tr", mixture=mixture)
    assert find_names(config, (), "data") == {"train": "train", "dev": "val"}


def test_a_name_with_a_folder_is_found_there(tmp_path):
    (tmp_path / "tok").mkdir()
    for stem in ("train", "val", "test", "tok/train", "tok/dev", "tok/test"):
        write_pairs(tmp_path, stem, PAIRS)
    config = text_config(tmp_path, train="tok/train", dev="tok/dev", test="tok/none")
    assert find_names(config, (), "data") == {"test": "test"}


def test_a_directory_that_is_not_there_has_nothing(tmp_path):
    assert find_names(text_config(tmp_path / "none"), (), "data") == {}


def test_a_missing_split_is_told_with_what_lies_there(tmp_path):
    write_pairs(tmp_path, "corpus", PAIRS)
    sentence = (
        f"no train split in {tmp_path}: neither train.en nor train.en.gz is there, but corpus.de, "
        "corpus.en; data.train must be the file name without its ending"
    )
    with pytest.raises(ValueError, match=re.escape(sentence)):
        list(corpus.read_pairs(text_config(tmp_path), "train"))


def test_of_a_file_and_its_gzipped_twin_it_is_said_which_is_read(tmp_path):
    for stem in ("train", "dev", "test"):
        write_pairs(tmp_path, stem, PAIRS)
    (tmp_path / "train.en.gz").touch()
    said = []
    corpus.make_ready(text_config(tmp_path), said.append)
    assert said == [f"{tmp_path} has train.en and train.en.gz: train.en is read"]
    (tmp_path / "other").mkdir()
    for stem in ("train", "dev"):
        write_pairs(tmp_path / "other", stem, PAIRS)
    (tmp_path / "other" / "dev.en.gz").touch()  # of a mixture, only train is read
    corpus.make_ready(text_config(tmp_path, mixture=f"{tmp_path / 'other'}=1"), said.append)
    assert len(said) == 1


@pytest.mark.parametrize("name", ["corpus.en", "Train.de.gz"])
def test_a_directory_holds_text_if_a_file_has_an_ending_of_the_config(tmp_path, name):
    (tmp_path / "dataset_info.json").touch()
    assert not holds_text(text_config(tmp_path))
    (tmp_path / name).touch()
    assert holds_text(text_config(tmp_path))
    assert holds_text(text_config(tmp_path / "none", mixture=f"{tmp_path}/x=1,{tmp_path}=2"))
