"""What the verb `prepare` adds to the function: progress, and an end by Ctrl-C in words."""

from types import SimpleNamespace

import pytest

from t2t_jax.cli import prepare
from t2t_jax.training.progress import Progress
from tests.cli.test_verbs import smallest_config


def test_ctrl_c_ends_in_a_sentence(monkeypatch, capsys):
    def interrupted(config):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare, "prepare", interrupted)
    monkeypatch.setattr(prepare, "flags", SimpleNamespace(FLAGS=SimpleNamespace(config=None)))
    with pytest.raises(SystemExit) as end:
        prepare.main()
    assert end.value.code == 130
    told = capsys.readouterr().err
    assert told == "t2t-jax prepare: stopped; the same command goes on from there\n"


def test_lines_and_progress_go_to_standard_error(tmp_path, monkeypatch, capsys):
    bars = []

    def prepare_data(config, log, vocabulary, *, make_bar, original=prepare.prepare_data):
        bars.append(make_bar)
        return original(config, log, vocabulary, make_bar=make_bar)

    monkeypatch.setattr(prepare, "prepare_data", prepare_data)
    prepared = prepare.prepare(smallest_config(tmp_path))
    out, err = capsys.readouterr()
    assert bars == [Progress] and out == ""
    assert err.splitlines()[0] == "vocabulary: 200 bpe pieces learned from train"
    assert err.splitlines()[-1] == f"prepared data written to {prepared.directory}"
