"""What the verb `prepare` adds to the function: an end by Ctrl-C in words."""

from types import SimpleNamespace

import pytest

from t2t_jax.cli import prepare


def test_ctrl_c_ends_in_a_sentence(monkeypatch, capsys):
    def interrupted(sections):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare, "prepare", interrupted)
    monkeypatch.setattr(prepare, "read_sections", lambda config: None)
    monkeypatch.setattr(prepare, "flags", SimpleNamespace(FLAGS=SimpleNamespace(config=None)))
    with pytest.raises(SystemExit) as end:
        prepare.main()
    assert end.value.code == 130
    message = capsys.readouterr().err
    assert message == "t2t-jax prepare: stopped; the same command goes on from there\n"
