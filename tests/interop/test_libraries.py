"""Packages of the `interop` extra are imported when needed, and reported if missing."""

import subprocess
import sys

import pytest

from t2t_jax.interop.libraries import in_one_line, library


def test_a_library_that_is_not_there_is_told_with_the_way_to_get_it():
    with pytest.raises(ValueError, match=r"needs no_such_library.* -e '\.\[interop"):
        library("no_such_library")


def test_the_verbs_import_none_of_them():
    heavy = "transformers", "ctranslate2", "safetensors"
    code = f"import sys, t2t_jax.cli.chosen_model; print([n for n in {heavy} if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "[]"


def test_a_long_message_is_cut_and_put_in_one_line():
    assert in_one_line(ValueError("one\n\n  two")) == "one two"
    assert len(in_one_line(ValueError("word " * 1000))) < 250
