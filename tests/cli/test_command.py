"""The flags that all commands share."""

import io
import sys

import pytest
from absl import flags, logging
from absl.testing import flagsaver

from t2t_jax.cli.command import may_be_cut_off, parse_flags


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch):
    monkeypatch.setattr(logging.get_absl_logger(), "filters", [])
    monkeypatch.setattr(flags.FLAGS["verbosity"], "using_default_value", True)


def _told(caplog) -> str:
    try:
        raise ValueError("no space left")
    except ValueError:
        logging.exception("an error")
    logging.warning("a warning")
    return caplog.text


def test_libraries_tell_warnings_alone_unless_asked(caplog):
    with flagsaver.flagsaver():
        assert parse_flags("a", ["a", "b"]) == ["a", "b"]
        assert logging.get_verbosity() == logging.WARNING
        told = _told(caplog)
        assert "a warning" in told and "an error" in told and "Traceback" not in told


def test_libraries_tell_all_where_asked(caplog):
    with flagsaver.flagsaver():
        parse_flags("a", ["a", "--verbosity=1"])
        assert logging.get_verbosity() == logging.DEBUG
        told = _told(caplog)
        assert "a warning" in told and "an error" in told and "Traceback" in told


def test_output_in_an_encoding_without_a_letter_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    said = "standard output is in latin-1, which has no 'Δ': set PYTHONIOENCODING=utf-8"
    with pytest.raises(ValueError, match=f"^{said}$"), may_be_cut_off():
        print("± is there, Δ is not")
