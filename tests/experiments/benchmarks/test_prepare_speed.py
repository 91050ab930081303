"""The measurement of preparing, on a tiny corpus."""

import subprocess
import sys

import numpy as np
import pytest

from experiments.benchmarks import prepare_speed


def test_the_invented_corpus_is_the_same_each_time_and_parallel(tmp_path):
    for name in ("a", "b"):
        prepare_speed.write_corpus(tmp_path / name, 500)
    files = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert files == [
        f"{split}.{lang}" for split in ("dev", "test", "train") for lang in ("de", "en")
    ]
    texts = {file: (tmp_path / "a" / file).read_bytes() for file in files}
    assert all((tmp_path / "b" / file).read_bytes() == text for file, text in texts.items())
    lines = {file: text.decode().removesuffix("\n").split("\n") for file, text in texts.items()}
    assert len(lines["train.en"]) == len(lines["train.de"]) == 500
    lengths = [[len(line.split(" ")) for line in lines[f"train.{lang}"]] for lang in ("en", "de")]
    assert lengths[0] == lengths[1] and 15 < np.mean(lengths) < 20
    # The most frequent word of an invented language is about as frequent as of a real one.
    words, counts = np.unique(" ".join(lines["train.en"]).split(" "), return_counts=True)
    assert "" not in words and 0.02 < counts.max() / counts.sum() < 0.06


def test_the_text_of_a_directory_is_left_alone(tmp_path):
    mine = tmp_path / "train.en"
    mine.write_text("mine\n")
    command = [sys.executable, "-m", "experiments.benchmarks.prepare_speed", "--pairs=300"]
    # Too small for the paper's vocabulary: it is written all the same.
    done = subprocess.run([*command, f"--directory={tmp_path}"], capture_output=True, text=True)
    assert done.stdout == "" and "pieces" in done.stderr
    assert (tmp_path / "invented-300" / "train.en").exists() and mine.read_text() == "mine\n"


def test_a_small_corpus_is_measured(tmp_path):
    prepare_speed.write_corpus(tmp_path, 500)
    flags = "--config.data.vocabulary_size=300", "--config.model.vocabulary_rows=512"
    measured = prepare_speed.measure(tmp_path, *flags)
    lines = ("vocabulary:", "train:", "prepared data written")
    events = [*map(measured.until, lines), measured.events[-1]]
    assert sorted(event.seconds for event in events) == [event.seconds for event in events]
    assert 0 < events[0].cpu_seconds <= events[-1].cpu_seconds
    assert 100 < measured.peak_memory_mib < 2_000


def test_of_a_corpus_too_small_to_be_told_of_all_is_told(tmp_path):
    prepare_speed.write_corpus(tmp_path, 2_000)
    flags = "--config.data.vocabulary_size=300", "--config.model.vocabulary_rows=512"
    found = prepare_speed.measure_twice(tmp_path, *flags)
    assert 1_900 < found["pairs"] <= 2_000 and found["pairs_per_second"] > 0
    # All pairs, the dropped ones too, over the time of all of it.
    assert found["pairs_per_second"] == pytest.approx(
        2_000 / found["seconds"]["all of it"], rel=0.1
    )
    assert 0 < found["seconds"]["second prepare"] and found["seconds"]["learn the pieces"] > 0
