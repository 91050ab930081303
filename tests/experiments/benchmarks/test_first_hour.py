"""The first hour: a rehearsal of all parts, and parts that fail."""

import json
import sys
from types import SimpleNamespace

import pytest

from experiments.benchmarks import first_hour
from experiments.benchmarks.first_hour import Part
from t2t_jax.json_files import read_json


def run(monkeypatch, workdir, parts=None, on="1 x NVIDIA H100 80GB HBM3", **given):
    """The exit code of the command, in this process."""
    flags = dict(workdir=str(workdir), directory="", topology="", only=[], toy=False)
    flags |= dict(minutes=9.0, total_minutes=50.0)
    monkeypatch.setattr(first_hour.flags, "FLAGS", SimpleNamespace(**flags | given))
    monkeypatch.setattr(first_hour, "devices", lambda: on)
    if parts is not None:
        monkeypatch.setattr(first_hour, "parts", lambda *_: iter(parts))
    with pytest.raises(SystemExit) as end:
        first_hour.main([])
    return end.value.code


def python(name, code, times=1):
    return Part(name, [sys.executable, "-c", code], times)


def test_a_part_that_fails_or_takes_too_long_stops_no_other(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(first_hour, "_SECONDS_TO_SAVE", 0.2)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: 0); time.sleep(60)"
    once = f"open({str(tmp_path / 'ran')!r}, 'x');"
    whole = python("whole", once + 'print(\'{"a": {"ms": [3, 1, 2.5]}, "b": true}\')')
    parts = [
        python("broken", "import sys; print(7); sys.exit('no such device')"),
        python("endless", stubborn, times=2),
        whole,
        python("words", "print('| x | y |'); print('z')"),
    ]
    assert run(monkeypatch, tmp_path, parts, minutes=0.03) == 1
    assert "broken has failed" in capsys.readouterr().err
    log = (tmp_path / "broken.log").read_text()
    assert "no such device" in log and "7\n" in log
    assert read_json(tmp_path / "broken.failed.json")["exit_code"] == 1
    endless = read_json(tmp_path / "endless.failed.json")
    assert not endless["in_time"] and endless["seconds"] > 2 * 0.03 * 60
    told = (tmp_path / "first_hour.md").read_text()
    assert "| a, ms | 2.5 (1 to 3) |\n| b | True |" in told and "| x | y |\n    z" in told
    assert "exit code 1" in told and "out of time" in told

    # Once more: what has a record is not done again, what has none is.
    assert run(monkeypatch, tmp_path, [python("broken", "print('[1, 2]')"), whole]) == 0
    assert read_json(tmp_path / "broken.json")["found"] == ["[1, 2]"]
    assert not (tmp_path / "broken.failed.json").exists()
    # On another machine, or with other flags, the record is of something else.
    told = str(run(monkeypatch, tmp_path, [whole], on="8 x TPU v5 lite"))
    assert "whole.json differs in devices: '1 x NVIDIA H100 80GB HBM3' there, '8 x TPU" in told
    told = str(run(monkeypatch, tmp_path, [python("whole", "print('[3]')")]))
    assert "whole.json differs in command" in told and "name another --workdir" in told
    assert read_json(tmp_path / "whole.json")["found"] == {"a": {"ms": [3, 1, 2.5]}, "b": True}


def test_what_a_part_found_before_its_time_was_over_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(first_hour, "_SECONDS_TO_SAVE", 0.2)
    so_far = tmp_path / "so_far.json"
    code = f"import time; open({str(so_far)!r}, 'w').write('{{\"ms\": 3}}'); time.sleep(60)"
    part = python("steps", code)._replace(output=so_far)
    assert run(monkeypatch, tmp_path, [part], minutes=0.03) == 1
    assert read_json(tmp_path / "steps.failed.json")["found"] == {"ms": 3}
    assert "| ms | 3 |" in (tmp_path / "first_hour.md").read_text()
    # Also if a second try finds nothing.
    part = python("steps", "import sys; sys.exit(3)")._replace(output=so_far)
    assert run(monkeypatch, tmp_path, [part]) == 1
    assert read_json(tmp_path / "steps.failed.json")["found"] == {"ms": 3}


def test_without_an_accelerator_only_the_rehearsal_runs(monkeypatch, tmp_path):
    parts = [python("quick", "print('[]')")]
    told = run(monkeypatch, tmp_path, parts, on="1 x cpu")
    assert "JAX finds no accelerator" in str(told) and not list(tmp_path.glob("*.json"))
    assert run(monkeypatch, tmp_path, parts, on="1 x cpu", toy=True) == 0


def test_the_devices_are_those_of_jax(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    assert first_hour.devices() == "2 x cpu"
    monkeypatch.setenv("JAX_PLATFORMS", "nonsense")
    with pytest.raises(SystemExit, match="JAX finds no device"):
        first_hour.devices()


def test_the_rehearsal_shares_nothing_with_the_real_hour(tmp_path):
    real, toy = (
        {part.name: part for part in first_hour.parts(tmp_path, "DIR", "h100-1", is_toy)}
        for is_toy in (False, True)
    )
    assert all(real[name].command != toy[name].command for name in real.keys() & toy.keys())
    words = [word for part in toy.values() for word in part.command]
    assert not any("DIR" in word or str(tmp_path / "multi30k") in word for word in words)
    assert "plan_calibrated" in real and "plan_calibrated" not in toy


def test_what_was_stopped_goes_on(monkeypatch, tmp_path):
    going_on = (
        "import pathlib, time; path = pathlib.Path({!r}); text = path.read_text();"
        "path.write_text(text + 'x'); time.sleep(0 if text else 60); print('[]')"
    )
    path = tmp_path / "so_far"
    path.write_text("")
    part = python("training", going_on.format(str(path)), times=3)
    record = first_hour.measure(part, tmp_path, {}, seconds=2.0)
    assert record["in_time"] and record["exit_code"] == 0
    assert path.read_text() == "xx"


def test_when_the_time_of_all_is_over_the_rest_is_for_the_next_time(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(first_hour, "_SECONDS_TO_SAVE", 0.2)
    parts = [
        python("quick", "print('[]')"),
        python("endless", "import time; time.sleep(60)", times=3),
        python("last", "print('[]')"),
    ]
    assert run(monkeypatch, tmp_path, parts, total_minutes=0.05) == 1
    assert {path.name for path in tmp_path.glob("*.json")} == {"quick.json", "endless.failed.json"}
    assert "the same command goes on" in capsys.readouterr().err
    assert run(monkeypatch, tmp_path, parts[::2]) == 0
    assert (tmp_path / "last.json").exists()


def test_without_a_corpus_nothing_reads_a_run_that_is_not_there(tmp_path):
    def commands(directory):
        return {
            part.name: part.command
            for part in first_hour.parts(tmp_path, directory, "h100-1", False)
        }

    trained = str(tmp_path / "multi30k")
    assert all(
        any(trained in word for word in commands("DIR")[name])
        for name in ("decode", "plan_calibrated")
    )
    assert "plan" in commands("")
    assert not any(trained in word for command in commands("").values() for word in command)


def test_old_prices_do_not_spoil_it(tmp_path):
    *_, plan = first_hour.parts(tmp_path, "", "h100-1", True)
    assert "--old_prices" in plan.command


def test_a_part_that_is_not_there_is_told(monkeypatch, tmp_path):
    assert "--only=warp is none of ceilings" in str(run(monkeypatch, tmp_path, only=["warp"]))


@pytest.mark.slow
def test_the_rehearsal(monkeypatch, tmp_path):
    monkeypatch.setenv("T2T_JAX_CACHE", str(tmp_path / "cache"))
    code = run(monkeypatch, tmp_path / "w", on="1 x cpu", toy=True, topology="h100-1")
    found = {path.stem: read_json(path) for path in (tmp_path / "w").glob("*.json")}
    told = {name: record["found"] for name, record in found.items() if "failed" in name}
    logs = [(tmp_path / "w" / f"{name.split('.')[0]}.log").read_text()[-2_000:] for name in told]
    assert code == 0, (json.dumps(told), *logs)
    assert set(found) == {part.name for part in first_hour.parts(tmp_path, "", "h100-1", True)}
    assert found["ceilings"]["found"]["float32_tflops"] > 0
    assert found["agreement_bfloat16"]["found"]["is_repeated"]
    assert "h100-1" in "".join(found["plan"]["found"])
    assert any("ours, first pass" in line for line in found["decode"]["found"])
    steps = [record["found"] for name, record in found.items() if name.startswith("step_")]
    assert sorted(len(each["costs"]) > 1 for each in steps) == [False, False, True]
