"""Flags as every command reads them."""

from absl import logging
from absl.testing import flagsaver

from t2t_jax.cli.command import parse_flags


def test_libraries_tell_warnings_alone_unless_asked():
    with flagsaver.flagsaver():
        assert parse_flags("a", ["a", "b"]) == ["a", "b"]
        assert logging.get_verbosity() == logging.WARNING
    with flagsaver.flagsaver():
        parse_flags("a", ["a", "--verbosity=1"])
        assert logging.get_verbosity() == logging.DEBUG
