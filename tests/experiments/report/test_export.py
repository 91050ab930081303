"""Every finished run is exported once, whatever else lies next to it."""

import csv
import io
import json
import struct
import subprocess
import sys

import pytest
from tensorboardX.proto import event_pb2
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
from tensorboardX.record_writer import masked_crc32c

from experiments.report.export import csv_file, tensorboard
from experiments.report.export.exported_runs import read_runs
from experiments.run import record
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, write_row

NAME = f"{TABLE.name}/one_head/seed-0"


@pytest.fixture
def workdir(tmp_path):
    write_row(tmp_path / "w", "base", [(1.2, 92.0), (1.3, 91.0)])
    write_row(tmp_path / "w", "one_head", [(1.5, 90.0)])
    return tmp_path / "w"


def exported(workdir):
    return read_runs(workdir)[0]


def csv_lines(runs, output):
    return list(csv.DictReader(io.StringIO(csv_file.export(runs, output).read_text("utf-8"))))


def test_a_row_that_comes_later_changes_no_other_run(workdir):
    before = {run.name: run.fingerprint for run in exported(workdir)}
    write_row(workdir, "no_positions", [(4.0, 60.0)])
    after = {run.name: run.fingerprint for run in exported(workdir)}
    assert before.items() <= after.items() and len(after) == len(before) + 1


def score_later(workdir):
    """Another test set, long after training."""
    path = workdir / NAME / "record.json"
    values = record.read_json(path)
    values["scores"]["test2017"] = {"name": "test2017", "bleu": 12.5}
    record.write_json(path, values)


def test_csv_has_a_line_a_run_with_what_differs_and_what_came_out(workdir, tmp_path):
    lines = csv_lines(exported(workdir), tmp_path)
    assert [line["run"] for line in lines] == [
        *(f"{TABLE.name}/base/seed-{seed}" for seed in range(2)),
        NAME,
    ]
    changed = [name for name in lines[0] if "." in name]
    assert changed == ["model.d_k", "model.d_v", "model.num_heads"]
    head = lines[2]
    assert head["row"] == "one_head" and head["seed"] == "0" and head["model.num_heads"] == "1"
    assert lines[1]["seed"] == "1" and lines[1]["model.num_heads"] == "4"
    numbers = ("dev_perplexity", "test_bleu", "seconds", "target_tokens_per_second", "params")
    assert [float(head[name]) for name in numbers] == [1.5, 90.0, 64.0, 2e6 / 60, 1_250_000]
    assert (head["commit"], head["direction"]) == ("0123abc", "en-de")
    assert head["bleu_signature"] == fakes.SIGNATURE


def test_all_that_a_split_was_scored_by_is_a_score_and_what_is_no_number_is_none(workdir):
    path = workdir / NAME / "record.json"
    values = record.read_json(path)
    values["scores"]["test"] |= {
        "metrics": {"chrf2": {"score": 70.5, "signature": "x"}, "ter": {"score": None}},
        "probes": {"order": 0.5},
        "bleu_by_length": [],
        "sentences": 1000,
        "decoding": {"beam_size": 4},
    }
    record.write_json(path, values)
    scores = exported(workdir)[2].scores
    assert scores == {
        "dev_perplexity": 1.5,
        "test_perplexity": 1.5,
        "test_bleu": 90.0,
        "test_chrf2": 70.5,
        "test_probes_order": 0.5,
    }


def test_runs_that_are_damaged_or_not_finished_are_told_and_the_others_are_there(workdir, tmp_path):
    rows = TABLE.rows(CONFIG)
    for row, failure in (("one_layer", "ValueError: boom"), ("learned_positions", None)):
        run = record.make_run(TABLE, rows.named(row), CONFIG, 0)
        record.write_run(workdir / run.directory, run)
        if failure:
            record.write_json(workdir / run.directory / "failure.json", {"error": failure})
    (workdir / TABLE.name / "base" / "seed-0" / "record.json").write_text("{")
    (workdir / TABLE.name / "base" / "seed-1" / "run.json").write_text("[]")
    (workdir / NAME / "metrics.jsonl").write_text("nothing\n")
    done = command(workdir, "csv", tmp_path / "out")
    assert done.returncode == 0
    assert done.stdout == f"written: {tmp_path / 'out' / 'runs.csv'}, 1 run\n"
    assert len((tmp_path / "out" / "runs.csv").read_text().splitlines()) == 2
    told = done.stderr
    assert "quickstart/one_layer/seed-0 has no record: ValueError: boom" in told
    assert "quickstart/learned_positions/seed-0 is not finished" in told
    assert "base/seed-0/record.json is damaged" in told and "base/seed-1/run.json" in told
    assert f"{NAME} has no curve: " in told
    assert len(told.splitlines()) == 5


def test_where_nothing_is_finished_that_is_said(tmp_path):
    done = command(tmp_path, "csv", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith(f"export: there are no finished runs below {tmp_path}")
    assert not (tmp_path / "out").exists()


def command(workdir, to, output):
    flags = [f"--workdir={workdir}", f"--to={to}", f"--output={output}"]
    words = [sys.executable, "-m", "experiments.report.export", *flags]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def events(path):
    """What TensorBoard would read of a file, whose checksums hold."""
    content, place = path.read_bytes(), 0
    while place < len(content):
        head = content[place : place + 8]
        (size,) = struct.unpack("<Q", head)
        data = content[place + 12 : place + 12 + size]
        checksums = content[place + 8 : place + 12] + content[place + 12 + size :][:4]
        assert struct.unpack("<II", checksums) == (masked_crc32c(head), masked_crc32c(data))
        yield event_pb2.Event.FromString(data)
        place += size + 16


def hparams(path):
    """By tag, what the plugin reads."""
    return {
        value.tag: HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for event in events(path)
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "hparams"
    }


def scalars(path):
    return [
        (value.tag, event.step, value.simple_value)
        for event in events(path)
        for value in event.summary.value
        if value.tag[0] != "_"
    ]


def test_tensorboard_has_curves_settings_and_scores(workdir, tmp_path):
    (tmp_path / "out").mkdir()
    tensorboard.export(exported(workdir), tmp_path / "out")
    [path] = (tmp_path / "out" / NAME).iterdir()
    found = hparams(path)["_hparams_/session_start_info"].session_start_info.hparams
    assert {key: value.number_value for key, value in found.items() if "." in key} == {
        "model.num_heads": 1,
        "model.d_k": 128,
        "model.d_v": 128,
    }
    assert found["row"].string_value == "one_head" and found["seed"].number_value == 0
    assert "_hparams_/session_end_info" in hparams(path)
    its = scalars(path)
    assert ("scores/test_bleu", 300, 90.0) in its
    assert [step for tag, step, _ in its if tag == "dev/perplexity"] == [1, 2, 3]
    [top] = (tmp_path / "out").glob("events*")
    experiment = hparams(top)["_hparams_/experiment"].experiment
    assert {info.name for info in experiment.hparam_infos} == found.keys()
    tags = [info.name.tag for info in experiment.metric_infos]
    assert tags == ["scores/dev_perplexity", "scores/test_perplexity", "scores/test_bleu"]
    assert "tensorflow" not in sys.modules


@pytest.mark.parametrize("export", [csv_file.export, tensorboard.export])
def test_a_second_time_nothing_is_doubled_and_what_has_changed_is_replaced(
    export, workdir, tmp_path
):
    (tmp_path / "out").mkdir()

    def content():
        export(exported(workdir), tmp_path / "out")
        files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in files}

    once = content()
    assert content() == once
    score_later(workdir)
    later = content()
    assert later.keys() == once.keys() and later != once


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_an_extra_that_is_not_there_is_told_in_a_sentence(name, workdir, tmp_path, monkeypatch):
    module = pytest.importorskip(
        f"experiments.report.export.{'mlflow_database' if name == 'mlflow' else 'wandb_offline'}"
    )
    monkeypatch.setitem(sys.modules, name, None)
    sentence = (
        rf"this needs {name}, .*: in a checkout of the code, pip install .* -e '\.\[{name}\]'$"
    )
    with pytest.raises(ValueError, match=sentence):
        module.export(exported(workdir), tmp_path)


@pytest.mark.filterwarnings("ignore")  # of its own libraries
def test_mlflow_has_each_run_once(workdir, tmp_path):
    """Where the extra is installed."""
    pytest.importorskip("mlflow")
    from experiments.report.export import mlflow_database

    def found():
        from mlflow import MlflowClient

        path = mlflow_database.export(exported(workdir), tmp_path)
        client = MlflowClient(f"sqlite:///{path}")
        number = client.get_experiment_by_name(TABLE.name).experiment_id
        return client, {run.info.run_name: run for run in client.search_runs([number])}

    client, once = found()
    head = once["one_head seed-0"]
    assert len(once) == 3 and head.info.status == "FINISHED"
    assert head.data.params["model.num_heads"] == "1" and head.data.tags["commit"] == "0123abc"
    assert head.data.metrics["scores/test_bleu"] == 90.0
    curve = client.get_metric_history(head.info.run_id, "dev/perplexity")
    assert [each.step for each in curve] == [1, 2, 3]
    assert {name: run.info.run_id for name, run in found()[1].items()} == {
        name: run.info.run_id for name, run in once.items()
    }
    score_later(workdir)
    _, later = found()
    assert later.keys() == once.keys()
    assert later["one_head seed-0"].data.metrics["scores/test2017_bleu"] == 12.5


@pytest.mark.filterwarnings("ignore")  # of its own libraries
def test_wandb_has_each_run_once(workdir, tmp_path):
    """Where the extra is installed."""
    pytest.importorskip("wandb")
    from experiments.report.export import wandb_offline

    def found():
        directory = wandb_offline.export(exported(workdir), tmp_path)
        return {path: path.read_bytes() for path in directory.glob("offline-run-*/*.wandb")}

    once = found()
    assert len(once) == 3
    assert b"one_head seed-0" in b"".join(once.values())
    assert found() == once
    score_later(workdir)
    later = found()
    assert len(later) == 3 and len(later.items() & once.items()) == 2
    assert b"scores/test2017_bleu" in b"".join(later.values())
    assert b"scores/test2017_bleu" not in b"".join(once.values())
    path = workdir / NAME / "record.json"  # made anew by other code
    record.write_json(path, record.read_json(path) | {"commit": "4567def"})
    anew = found()
    assert len(anew) == 3 and len(anew.items() & later.items()) == 2


def test_hostile_text_is_plain_and_no_formula(workdir, tmp_path):
    for file in ("run.json", "record.json"):
        path = workdir / NAME / file
        values = json.loads(path.read_text())
        values["config"]["data"]["name"] = "=1+1\x1b[2J\n"
        values |= {"hardware": "@x", "steps": 1e99, "seconds": {"train": -1e99}}
        values["scores"] = {"dev": {"perplexity": 1e99}}
        path.write_text(json.dumps(values))
    (workdir / NAME / "metrics.jsonl").write_text(
        "".join(
            json.dumps({"split": "\x1b[", "step": step, "x": 1e99, "seconds": -1e99}) + "\n"
            for step in (-1, 5, 10**99)
        )
    )
    runs = exported(workdir)
    assert runs[2].points == [(5, 0, {"\\x1b[/x": 1e99})]
    lines = csv_lines(runs, tmp_path)
    assert (lines[2]["data.name"], lines[2]["hardware"]) == ("'=1+1\\x1b[2J\\n", "'@x")
    tensorboard.export(runs, tmp_path)
