"""How the flags choose a launcher."""

import functools
import types

import pytest

from configs import multi30k
from experiments.launchers import event, local, options, ray, tpu_vm
from experiments.launchers.event import Event
from experiments.launchers.together import together

FLAGS = dict.fromkeys(
    ("base", "parallel", "resources", "ray_address", "slurm", "tpu", "seeds_together")
)


def _values(**flags):
    return types.SimpleNamespace(**{"launcher": "local", **FLAGS, **flags})


def test_the_launcher_gets_its_options(monkeypatch):
    chosen = options.chosen(_values(parallel=3))
    assert chosen.launch.func is local.launch and chosen.launch.keywords == {"parallel": 3}
    chosen = options.chosen(_values(launcher="ray", resources='{"GPU": 0.5}', ray_address="auto"))
    assert chosen.launch.func is ray.launch and chosen.shares_files
    assert chosen.launch.keywords["resources"] == {"GPU": 0.5}
    assert chosen.launch.keywords["address"] == "auto"
    monkeypatch.setattr(tpu_vm, "check_installed", lambda: None)
    chosen = options.chosen(
        _values(launcher="tpu_vm", tpu="project=p, zone=z,type=v4-8,bucket=gs://b/d/")
    )
    assert chosen.launch.func is tpu_vm.launch and not chosen.shares_files
    assert chosen.launch.keywords["request"].bucket == "gs://b/d"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"resources": "{}"}, "--resources is for --launcher=ray; this is --launcher=local"),
        ({"launcher": "ray", "slurm": "time=3"}, "--slurm is for --launcher=slurm"),
        ({"parallel": 0}, "--parallel=0 runs at a time; at least 1"),
        ({"launcher": "ray", "resources": "{CPU: 2}"}, "is no JSON object of positive numbers"),
        ({"launcher": "ray", "resources": '{"CPU": "2"}'}, "is no JSON object of positive numbers"),
        ({"launcher": "ray", "resources": '{"CPU": 0}'}, "is no JSON object of positive numbers"),
        ({"launcher": "slurm", "slurm": "time"}, "--slurm: 'time' is no NAME=VALUE"),
        ({"launcher": "slurm", "slurm": "time=1,time=2"}, "--slurm has time twice"),
        ({"launcher": "tpu_vm", "base": multi30k.get_config()}, "files of this machine, which a"),
    ],
)
def test_an_option_that_is_wrong_is_told_in_a_sentence(flags, sentence, monkeypatch):
    monkeypatch.setattr("experiments.launchers.slurm.check_installed", lambda: None)
    with pytest.raises(ValueError, match=sentence):
        options.chosen(_values(**flags))


def test_seeds_of_a_row_are_given_to_one_process(tmp_path):
    launched = []

    def launch(directories, command, parallel):
        launched.append((list(directories), command[-1], parallel))
        for directory in directories:
            yield Event(directory, "started", 0.0)
            (directory.parent / "seed-1" / "record.json").write_text("{}")
            yield Event(directory, "failed", 1.0, "no reason")

    directories = [tmp_path / row / seed for seed in ("seed-0", "seed-1") for row in "ab"]
    for directory in directories:
        directory.mkdir(parents=True)
    events = list(together(functools.partial(launch, parallel=2))(directories))
    assert launched == [([tmp_path / "a" / "seed-0", tmp_path / "b" / "seed-0"], "--together", 2)]
    of_a = [(event.directory.name, event.kind, event.reason) for event in events[:4]]
    assert of_a == [
        ("seed-0", "started", ""),
        ("seed-1", "started", ""),
        ("seed-0", "failed", "no reason"),
        ("seed-1", "finished", ""),
    ]


def test_seeds_that_another_command_trains_are_left_alone(tmp_path):
    directories = [tmp_path / "row" / seed for seed in ("seed-0", "seed-1")]
    for directory in directories:
        directory.mkdir(parents=True)
        (directory / "running.json").write_text("{}")

    def launch(directories, command):
        yield event.ended(directories[0], 1.0, event.IS_TAKEN)

    events = list(together(launch)(directories))
    assert [(one.directory, one.kind, one.reason) for one in events] == [
        (directory, "failed", event.TAKEN) for directory in directories
    ]
    for directory in directories:
        assert [path.name for path in directory.iterdir()] == ["running.json"]


def test_a_slice_takes_no_seeds_together(monkeypatch):
    monkeypatch.setattr(tpu_vm, "check_installed", lambda: None)
    values = _values(
        launcher="tpu_vm", tpu="project=p,zone=z,type=v4-8,bucket=gs://b/d", seeds_together=True
    )
    with pytest.raises(ValueError, match="--seeds_together: a slice of tpu_vm"):
        options.chosen(values)
