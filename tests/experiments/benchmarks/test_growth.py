"""How cost grows, measured at the smallest points."""

import pytest

from experiments.benchmarks import growth, step
from experiments.benchmarks.__main__ import PARTS, Options, results
from experiments.benchmarks.growth_lines import lines_of
from t2t_jax.runs.train import train
from tests.runs.configs import smallest


def test_axes_and_points_can_be_chosen():
    assert growth.chosen([*growth.AXES]) == growth.POINTS
    assert growth.chosen(["depth", "sentences=1000", "length=64"]) == [
        *("length=64", "depth=6", "depth=12", "depth=24", "depth=48", "sentences=1000"),
    ]


def test_every_length_has_as_many_tokens():
    for length in growth.AXES["length"].values:
        flags = growth.AXES["length"].flags(length)
        [rows, source, target] = step.shape_of(flags[0].partition("=")[2])
        assert source == target == length and rows * length == 2_048


_SMALL = [
    *(f"--config.model.num_{side}_layers=1" for side in ("encoder", "decoder")),
    *(f"--config.model.{key}=16" for key in ("d_model", "d_ff", "d_k", "d_v")),
    "--num_cpu_devices=2",
]


@pytest.mark.slow
def test_the_part_at_its_two_smallest_points(monkeypatch):
    length = growth.AXES["length"]
    smaller = length._replace(flags=lambda value: [*length.flags(value), *_SMALL])
    monkeypatch.setitem(growth.AXES, "length", smaller)
    each_of = {"point": ["length=64", "length=128"]}
    found = list(results({"growth": PARTS["growth"]}, each_of, [], Options(rounds=2)))
    first, second = found[:5], found[5:]
    assert [(one.what, one.unit, one.rounds) for one in first] == [
        *(("step", "ms", 2), ("rate", "tokens/s", 2)),
        *(("first state", "s", 1), ("compilation", "s", 1), ("peak memory", "MiB", 1)),
    ]
    milliseconds, rate, *_, memory = (one.value for one in first)
    assert min(one.value for one in first) > 0 and 150 < memory < 2_000
    assert rate * milliseconds / 1e3 == pytest.approx(2_048, rel=0.5)  # medians, each of its own
    lines = lines_of(first + second)
    assert [line.values for line in lines] == [[64, 128]] * 4


@pytest.mark.slow
def test_translate_reads_a_pipe_and_writes_one(tmp_path):
    train(smallest(tmp_path / "cache", **{"decoding.beam_size": 1}), tmp_path / "w")
    found = {each.what: each.values[0] for each in growth.translated(tmp_path / "w", 600)}
    assert 0 < found["first line"] <= found["whole command"] < 100
    assert found["rate"] == pytest.approx(600 / found["whole command"])
    assert 200 < found["peak memory"] < 2_000


def test_what_fails_says_why(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"0 of 100 lines translated: .*/w holds no run"):
        growth.translated(tmp_path / "w", 100)
    monkeypatch.setitem(growth._TRANSLATES, "training.steps", 0)
    with pytest.raises(ValueError, match="to translate with cannot be made: .*training.steps"):
        growth.measure("sentences=100", 1)
    axis = growth.AXES["depth"]._replace(flags=lambda _: ["--shape=0x1x1"])
    monkeypatch.setitem(growth.AXES, "depth", axis)
    with pytest.raises(ValueError, match="step --shape=0x1x1 --rounds=1 failed: .*rows"):
        growth.measure("depth=6", 1)
