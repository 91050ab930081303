"""The verb plan, on hardware that needs no compiler, and with kept results of a compiler."""

import json

import pytest

from t2t_jax.plan import facts
from tests.cli.command import command
from tests.plan.stand_in import StandIn

CONFIG = "--config=configs/tiny.py"
ARGUMENTS = (CONFIG, "--config.data.cache=/nowhere", "--old_prices")


@pytest.fixture
def compiler(monkeypatch):
    found = StandIn()
    monkeypatch.setattr(facts, "compiled_facts", found)
    monkeypatch.setattr(facts, "_versions", lambda: {"jax": "9", "libtpu": "9"})
    return found


def test_gpus_are_planned_without_a_compiler():
    done = command("plan", *ARGUMENTS, "--topology=h100-8")
    assert done.returncode == 0, done.stderr
    assert "h100-8  8 x 1 x 1" in done.stdout and "roofline alone" in done.stdout
    assert "prices read on" in done.stdout


def test_several_topologies_grow_in_a_table_a_figure_and_json(compiler, tmp_path):
    outputs = f"{tmp_path}/plan.png,{tmp_path}/plan.json"
    done = command(
        *("plan", *ARGUMENTS, f"--facts={tmp_path}/facts.json"),
        *("--topologies=v5e-1,v5e-8,v5e-256", f"--output={outputs}"),
    )
    assert done.returncode == 0, done.stderr
    assert "efficiency" in done.stdout and "stop scaling at" in done.stdout
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    plans = json.loads((tmp_path / "plan.json").read_text())["plans"]
    assert [each["chips"] for each in plans] == [1, 8, 256]
    assert len(compiler.asked) == len(set(program.key for program in compiler.asked))


def test_the_second_time_nothing_is_compiled(compiler, tmp_path):
    arguments = ("plan", *ARGUMENTS, f"--facts={tmp_path}/facts.json", "--topology=v5e-8")
    first, number = command(*arguments).stdout, len(compiler.asked)
    assert command(*arguments).stdout == first
    assert len(compiler.asked) == number > 0


def test_layouts_are_tried_and_the_fastest_is_named(compiler, tmp_path):
    done = command(
        *("plan", *ARGUMENTS, f"--facts={tmp_path}/facts.json", "--programs=largest"),
        *("--topology=v5e-8", "--layouts=auto"),
    )
    assert "the fastest on v5e-8 that fits: " in done.stdout, done.stderr
    assert len(compiler.asked) == 4


def test_out_of_memory_is_an_answer(compiler, tmp_path):
    compiler.state = 20 * 2**30
    done = command("plan", *ARGUMENTS, f"--facts={tmp_path}/facts.json", "--topology=v5e-8")
    assert done.returncode == 0, done.stderr
    assert "v5e-8: does not fit: parameters and optimizer alone take 20.00 GiB" in done.stdout
    assert "--layouts=auto tries other ways" in done.stdout
    done = command(
        *("plan", *ARGUMENTS, f"--facts={tmp_path}/facts.json", "--topology=v5e-8"),
        f"--output={tmp_path}/plan.png",
    )
    assert f"{tmp_path}/plan.png was not written: nothing fits" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give --topology or --topologies: there are v4-2 to v4-512"),
        (("--topology=",), "give --topology or --topologies: there are v4-2 to v4-512"),
        (("--topology=h100-8", "--layouts=auto"), "h100-8 is planned from its peaks alone"),
        (("--topology=v5e-8", "--topologies=v5e-8"), "give --topology or --topologies"),
        (("--topology=v5e-9",), "'v5e-9': v5e comes in sizes of 1, 4, 8"),
        (("--topology=h100-1", "--output=plan.txt"), "must end in .json, .png or .svg"),
        (("--topology=h100-1", "--calibrate=/nowhere"), "it is of no finished run"),
        (("--topology=h100-1", "--prices=/nowhere"), "/nowhere"),
        (("--topology=h100-1", "--output=gs://b/plan.json"), "must be a path of this machine"),
        (("--topology=h100-1", "--facts=gs://b/f.json"), "must be a path of this machine"),
    ],
)
def test_what_a_person_gets_wrong_is_one_sentence(arguments, words):
    done = command("plan", *ARGUMENTS, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("t2t-jax plan: ") and words in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_the_compiler_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(facts, "_versions", lambda: {"jax": "9"})
    done = command("plan", *ARGUMENTS, "--topology=v5e-8", f"--facts={tmp_path}/facts.json")
    assert "pip install -c constraints.txt -e '.[tpu]', which needs no TPU" in done.stderr
