"""Preparing, resuming, failing and stopping, with a stand-in for the training."""

import functools
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing

import pytest

from configs import base, tiny
from experiments import quickstart, sweep, table3
from experiments.launchers import local
from tests.experiments import fakes

CONFIG = tiny.get_config()
TABLE = quickstart.TABLE
ROWS = TABLE.rows(CONFIG)

STAND_IN = """
import json, os, pathlib, sys, time
directory = pathlib.Path(sys.argv[1])
run = json.loads((directory / "run.json").read_text())
print("cores", sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [])
with open(directory / "times_run", "a") as file:
    file.write("x")
if run["row"] == "one_head":
    (directory / "failure.json").write_text(json.dumps({"error": "ValueError: no such thing"}))
    sys.exit(1)
if run["row"] == "one_layer":
    os.kill(os.getpid(), 9)
if run["row"] == "learned_positions" and "fussy" in str(directory):
    sys.exit("the disk is full")
if run["row"] == "no_positions":
    (directory / "pid").write_text(str(os.getpid()))
    time.sleep(60)
scores = {"dev": {"perplexity": 1.234}, "test": {"bleu": 91.26}}
(directory / "record.json").write_text(json.dumps({"scores": scores}))
"""


@pytest.fixture(autouse=True)
def no_corpus(monkeypatch):
    monkeypatch.setattr("t2t_jax.cli.prepare.prepare", lambda config: None)


@pytest.fixture
def launch(tmp_path):
    script = tmp_path / "stand_in.py"
    script.write_text(textwrap.dedent(STAND_IN))
    return functools.partial(local.launch, command=(sys.executable, str(script)))


def _prepared(tmp_path, patterns, num_seeds=1):
    return sweep.prepare_runs(TABLE, ROWS.select(patterns), CONFIG, num_seeds, tmp_path / "work")


def test_every_row_and_seed_gets_its_directory(tmp_path):
    directories = _prepared(tmp_path, "base,one_head", num_seeds=2)
    names = [str(path.relative_to(tmp_path / "work")) for path in directories]
    assert names == [
        "quickstart/base/seed-0",
        "quickstart/one_head/seed-0",
        "quickstart/base/seed-1",
        "quickstart/one_head/seed-1",
    ]
    values = json.loads((directories[3] / "run.json").read_text())
    assert (values["table"], values["row"], values["seed"]) == ("quickstart", "one_head", 1)
    assert values["config"]["seed"] == values["base"]["seed"] == 1
    assert values["config"]["model"]["num_heads"] == values["changes"]["model.num_heads"] == 1
    assert values["base"]["model"]["num_heads"] == CONFIG.model.num_heads


def test_a_finished_run_is_not_run_again(tmp_path, launch):
    directories = _prepared(tmp_path, "base,learned_positions")
    assert sweep.sweep(directories, 1, launch, lambda line: None) == 0
    lines = []
    assert sweep.sweep(_prepared(tmp_path, "base,learned_positions"), 1, launch, lines.append) == 0
    assert lines == ["2 runs, 2 of them finished before"]
    assert [(path / "times_run").read_text() for path in directories] == ["x", "x"]


def test_a_later_sweep_with_more_seeds_runs_only_those(tmp_path, launch):
    sweep.sweep(_prepared(tmp_path, "base"), 1, launch, lambda line: None)
    directories = _prepared(tmp_path, "base", num_seeds=2)
    sweep.sweep(directories, 1, launch, lambda line: None)
    assert [(path / "times_run").read_text() for path in directories] == ["x", "x"]


def test_a_failing_row_does_not_stop_the_others_and_is_counted(tmp_path, launch):
    directories = _prepared(tmp_path, "base,one_head,one_layer,learned_positions")
    lines = []
    assert sweep.sweep(directories, 2, launch, lines.append) == 2
    assert [(path / "record.json").exists() for path in directories] == [True, False, False, True]
    said = "\n".join(lines)
    assert "one_head seed-0 FAILED: ValueError: no such thing; log: " in said
    assert "one_layer seed-0 FAILED: killed by signal 9; log: " in said
    assert "base seed-0 finished in 0 s: PPL 1.23  BLEU 91.3" in said
    assert "killed by signal 9" in (directories[2] / "failure.json").read_text()


def test_the_reason_of_an_early_exit_is_the_last_line_of_its_log(tmp_path, launch):
    rows = ROWS.select("learned_positions")
    [directory] = sweep.prepare_runs(TABLE, rows, CONFIG, 1, tmp_path / "fussy")
    lines = []
    assert sweep.sweep([directory], 1, launch, lines.append) == 1
    assert "FAILED: exit code 1: the disk is full; log: " in "\n".join(lines)


def test_a_failed_run_is_tried_again(tmp_path, launch):
    directories = _prepared(tmp_path, "one_head")
    for _ in range(2):
        assert sweep.sweep(directories, 1, launch, lambda line: None) == 1
    assert (directories[0] / "times_run").read_text() == "xx"


def test_a_changed_config_is_refused_and_says_what_differs(tmp_path):
    directories = _prepared(tmp_path, "base")
    changed = tiny.get_config()
    changed.training.steps = 777
    with pytest.raises(ValueError, match=r"base/seed-0.*training\.steps is \d+ there, 777 now"):
        sweep.prepare_runs(TABLE, ROWS, changed, 1, tmp_path / "work")
    assert (
        json.loads((directories[0] / "run.json").read_text())["config"]["training"]["steps"] != 77
    )
    assert not (tmp_path / "work/quickstart/one_head").exists()


def test_a_value_no_section_allows_fails_before_anything_is_written(tmp_path):
    changed = tiny.get_config()
    changed.training.steps = 0
    with pytest.raises(ValueError, match="row base: .*steps=0"):
        sweep.prepare_runs(TABLE, ROWS, changed, 1, tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_closing_the_launcher_ends_its_processes(tmp_path, launch):
    directories = _prepared(tmp_path, "no_positions")
    start = time.monotonic()
    with closing(launch(directories, 1)) as events:
        assert next(events).kind == "started"
        while not (directories[0] / "times_run").exists():
            time.sleep(0.02)
    assert time.monotonic() - start < 30
    assert not (directories[0] / "record.json").exists()
    assert not (directories[0] / "failure.json").exists()


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_leaves_no_process_and_says_how_to_continue(tmp_path, launch, stop_signal):
    code = f"""
        import functools
        import signal
        from configs import tiny
        from experiments import quickstart, sweep
        from experiments.launchers import local
        # As in a terminal, also where these tests are a shell's background job, which ignores it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        launch = functools.partial(local.launch, command={launch.keywords["command"]!r})
        sweep.run_table(quickstart.TABLE, tiny.get_config(), patterns="no_positions",
                        workdir={str(tmp_path)!r}, parallel=1, launch=launch)
    """
    pid_file = tmp_path / "quickstart/no_positions/seed-0/pid"
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        while not (pid_file.exists() and pid_file.read_text()):
            assert it.poll() is None
            time.sleep(0.05)
        it.send_signal(stop_signal)
        _, said = it.communicate(timeout=60)
    assert it.returncode == 130
    assert "the same command continues what is not finished" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system pins no processes")
def test_processes_share_the_cores_without_overlap():
    cores = sorted(os.sched_getaffinity(0))
    shares = local._core_shares(len(cores))
    assert sorted(core for share in shares for core in share) == cores
    assert all(local._core_shares(2 * len(cores) + 1))


def test_a_parallel_of_zero_is_refused():
    with pytest.raises(ValueError, match="parallel=0"):
        local.launch([], 0)


def test_the_dry_run_tells_rows_parameters_and_reasons():
    rows = table3.TABLE.rows(CONFIG).select("base,C.N=*")
    text = sweep.dry_run_text(table3.TABLE, rows, CONFIG)
    assert "C.N=1" in text and "num_encoder_layers=1 num_decoder_layers=1" in text
    assert "paper" not in text.splitlines()[2]
    every_reason = table3.TABLE.rows(CONFIG)._replace(rows=rows.rows)
    left_out = sweep.dry_run_text(table3.TABLE, every_reason, CONFIG)
    assert ("Left out at this base:" in left_out) == bool(every_reason.left_out)


def test_the_dry_run_at_the_papers_base_has_its_parameters_beside_ours():
    config = base.get_config()
    rows = table3.TABLE.rows(config).select("base,B.d_k=16")
    lines = sweep.dry_run_text(table3.TABLE, rows, config).splitlines()
    assert lines[2].split() == ["row", "10^6", "paper", "changes"]
    assert lines[3].split() == ["base", "65.11", "65"]
    assert lines[4].split() == ["B.d_k=16", "58.02", "58", "d_k=16"]


def test_the_table_is_printed_and_written_without_anything_left_to_train(tmp_path, capsys):
    for row in ROWS.rows:
        fakes.write_record(tmp_path, TABLE, CONFIG, row.name, 0, perplexity=1.5, bleu=90.0)
    assert sweep.run_table(TABLE, CONFIG, workdir=str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "5 runs, 5 of them finished before" in said
    assert "| no_positions" in said
    assert "report.md" in said and "learning_curves.png" in said


def test_sample_translations_stand_between_source_and_reference(tmp_path):
    config = tiny.get_config()
    text = {"train": "a\n", "dev": "b\n", "test": "one\ntwo\nthree\n"}
    for stem, lines in text.items():
        (tmp_path / f"{stem}.en").write_text(lines)
        (tmp_path / f"{stem}.de").write_text(lines.upper())
    config.data.update(source="text", directory=str(tmp_path))
    [directory] = sweep.prepare_runs(TABLE, ROWS.select("base"), config, 1, tmp_path / "work")
    (directory / "translations").mkdir()
    (directory / "translations" / "test.txt").write_text("eins\nzwei\ndrei\n")
    blocks = sweep.sample_translations(directory, 2).split("\n\n")
    assert [block.split() for block in blocks] == [
        ["source", "one", "translation", "eins", "reference", "ONE"],
        ["source", "two", "translation", "zwei", "reference", "TWO"],
    ]


def _command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table3", "--base=configs/tiny.py", "--base.model.nheads=3"], "no key 'nheads'"),
        (["table3", "--base=configs/tiny.py", "--dry_run", "--rows=Z.*"], "no row is called 'Z.*'"),
        (["table3"], "--base is needed"),
        (["table3", "--base=configs/absent.py", "--dry_run"], "configs/absent.py"),
    ],
)
def test_a_mistyped_command_ends_in_a_sentence(arguments, sentence):
    done = _command("experiments.sweep", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("sweep: ") and sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_overrides_reach_the_rows_and_help_shows_the_commands():
    flags = ["--base=configs/tiny.py", "--base.model.num_heads=8", "--dry_run", "--rows=A.*"]
    assert "A.h=32" in _command("experiments.sweep", "table3", *flags).stdout
    shown = _command("experiments.sweep", "--help").stdout
    assert "--rows='A.*,E.*'" in shown and "--[no]dry_run" in shown


def test_the_quickstart_command_is_the_sweep_of_its_table():
    said = _command("experiments.quickstart", "--dry_run", "--base.model.d_ff=64").stdout
    assert "one_head" in said and "no_positions" in said
    assert io.StringIO(said).readline() == TABLE.title + "\n"
