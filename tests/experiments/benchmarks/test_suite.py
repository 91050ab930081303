"""The suite, with fake parts."""

import subprocess
import sys

import pytest

from experiments.benchmarks.__main__ import PARTS, Options, Part, results
from experiments.benchmarks.results import Measured
from experiments.benchmarks.sizes import SIZES
from t2t_jax.runs.sections import read_sections


def test_each_part_is_asked_for_each_size_with_what_it_reads(capsys):
    asked = []

    def measure(options):
        asked.append(options)
        return [Measured("ours", "tokens/s", [1.0, 2.0])]

    parts = {
        "step": Part(measure, ("size", "against"), ("torch",)),
        "decode": Part(
            measure, ("against", "workdir", "lines", "rounds"), ("one", "other", "third")
        ),
        "prepare": Part(measure, of="20 pairs"),
        "growth": Part(measure, ("point",)),
    }
    each_of = {"size": ["tiny", "base"], "point": ["depth=6", "depth=12"]}
    given = Options(workdir="/some/where/run", lines=7, rounds=3)
    found = list(results(parts, each_of, ["torch", "third", "one"], given))
    ours = "python -m experiments.benchmarks --parts="
    assert [(one.part, one.size, one.command) for one in found] == [
        ("step", "tiny", f"{ours}step --sizes=tiny --against=torch"),
        ("step", "base", f"{ours}step --sizes=base --against=torch"),
        ("decode", "run", f"{ours}decode --against=one,third --workdir=W --lines=7 --rounds=3"),
        ("prepare", "20 pairs", f"{ours}prepare"),
        ("growth", "depth=6", f"{ours}growth --points=depth=6"),
        ("growth", "depth=12", f"{ours}growth --points=depth=12"),
    ]
    assert [(each.size, each.point, each.against) for each in asked] == [
        *(("tiny", "", ["torch"]), ("base", "", ["torch"])),
        *(("", "", ["one", "third"]), ("", "", [])),
        *(("", "depth=6", []), ("", "depth=12", [])),
    ]
    assert {each.rounds for each in asked} == {3}
    told = capsys.readouterr().err
    assert all(one.command in told for one in found)


def test_what_was_measured_is_there_before_the_part_has_ended():
    def measure(_):
        yield Measured("greedy", "s", [1.0])
        raise TimeoutError

    found = results({"decode": Part(measure)}, {}, [], Options())
    assert next(found).what == "greedy"
    with pytest.raises(TimeoutError):
        next(found)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--parts=decode", "--sizes=base"], "--sizes changes nothing in --parts=decode"),
        (["--parts=step,train", "--workdir=W"], "--workdir changes nothing in --parts=step,train"),
        (["--parts=train", "--points=depth=6"], "--points changes nothing in --parts=train"),
        (["--parts=growth", "--points="], "--points is empty"),
    ],
)
def test_a_flag_that_no_part_reads_is_refused(arguments, told):
    command = [sys.executable, "-m", "experiments.benchmarks", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == f"benchmarks: {told}\n" and done.returncode != 0


def test_options_that_parts_read_are_there():
    assert {name for part in PARTS.values() for name in part.reads} == set(Options._fields)


@pytest.mark.parametrize("name", SIZES)
def test_a_size_can_be_trained(name):
    size = SIZES[name]
    for directory in ("", "DIR"):
        config, *changes = size.train_flags(directory)
        assert config == f"--config={size.config}"
        values = size.read_config()
        for change in changes:
            key, _, value = change.removeprefix("--config.").partition("=")
            section, _, leaf = key.partition(".")
            values[section][leaf] = type(values[section][leaf])(value)
        sections = read_sections(values)
        assert sections.data.vocabulary_size <= sections.model.vocabulary_rows
    rows, length = size.shape
    assert rows * length == size.tokens == values.data.target_tokens_per_batch
