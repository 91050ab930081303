"""Preparing a TFDS dataset."""

import numpy as np
import pytest

from t2t_jax.data.prepare import building
from t2t_jax.data.prepare.prepared import prepare
from tests.data.text_corpus import sentence_pairs, text_config, write_corpus
from tests.data.tfds_corpus import WMT14, write_tfds


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_tfds_dataset_is_prepared_like_text_files(tmp_path, monkeypatch, num_processes):
    monkeypatch.setattr(building, "_EXAMPLES_PER_CHUNK", 30)
    pairs = sentence_pairs(120)
    write_corpus(tmp_path)
    splits = {"train": pairs[:80], "validation": pairs[80:100], "test": pairs[100:]}
    write_tfds(tmp_path / "tfds", splits)
    of_tfds = {"source": "tfds", "name": WMT14, "dev": "validation"}
    config = text_config(tmp_path / "tfds", **of_tfds)
    lines = []
    prepared = prepare(config, lines.append, num_processes=num_processes)
    text = prepare(text_config(tmp_path), lambda line: None)
    for split in ("train", "dev", "test"):
        for there, here in zip(prepared.splits[split], text.splits[split], strict=True):
            np.testing.assert_array_equal(there, here)
    assert prepared.fingerprint == text.fingerprint
    assert prepared.manifest["place"]["name"] == WMT14
    assert prepare(config, lines.append).directory == prepared.directory
    assert lines[-1].startswith("nothing has changed")


def test_a_slice_read_twice_is_another_corpus(tmp_path):
    pairs = sentence_pairs(120)
    write_tfds(tmp_path, {"train": pairs[:80], "validation": pairs[80:], "test": pairs[80:]})
    of_tfds = {"source": "tfds", "name": WMT14, "dev": "validation"}
    for train, num_pairs in {"train[:50%]": 40, "train[:50%]+train[:50%]": 80}.items():
        prepared = prepare(text_config(tmp_path, train=train, **of_tfds), lambda line: None)
        assert prepared.splits["train"].num_pairs == num_pairs
