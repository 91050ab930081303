"""The command: stopping, the table at the end, wrong flags; a stand-in for the training."""

import gc
import io
import os
import signal
import subprocess
import sys
import textwrap
import time
import types

import pytest

from experiments.sweep import __main__ as command
from experiments.sweep import sweep
from tests.cli.command import module
from tests.experiments import fakes, pretended_run
from tests.experiments.report.test_samples import references, write_run
from tests.experiments.sweeps import CONFIG, TABLE, write_sweep

ROWS = TABLE.rows(CONFIG)


@pytest.fixture(autouse=True)
def no_corpus(monkeypatch):
    prepared = types.SimpleNamespace(fingerprint=fakes.DATA)
    monkeypatch.setattr("t2t_jax.runs.prepare.prepare", lambda sections: prepared)


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_leaves_no_process_and_says_how_to_continue(tmp_path, stop_signal):
    code = f"""
        import functools
        import signal
        from pathlib import Path
        from configs import tiny
        from experiments.sweep import sweep
        from experiments.tables import quickstart
        from experiments.launchers import local, options
        # As in a terminal, also where these tests are a shell's background job, which ignores it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run_command = {pretended_run.COMMAND!r}
        launch = functools.partial(local.launch, parallel=1, command=run_command)
        sweep.run_table(quickstart.TABLE, tiny.get_config(), Path({str(tmp_path)!r}),
                        patterns="no_positions", launcher=options.Chosen(launch, False))
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


def test_the_table_is_printed_and_written_without_anything_left_to_train(tmp_path, capsys):
    for row in ROWS.rows:
        fakes.write_record(tmp_path, TABLE, CONFIG, row.name, 0, perplexity=1.5, bleu=90.0)
    assert sweep.run_table(TABLE, CONFIG, tmp_path) == 0
    said = capsys.readouterr().out
    assert "5 runs, 5 of them finished before" in said
    assert "| no_positions" in said
    assert "report.md" in said and "learning_curves.png" in said


def test_a_corpus_that_has_changed_since_a_run_is_told(tmp_path, monkeypatch):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.5, bleu=90.0)
    assert sweep.run_table(TABLE, CONFIG, tmp_path, patterns="base") == 0
    prepared = types.SimpleNamespace(fingerprint="another")
    monkeypatch.setattr("t2t_jax.runs.prepare.prepare", lambda sections: prepared)
    with pytest.raises(ValueError, match=f"made of the data {fakes.DATA}, .* is now another"):
        sweep.run_table(TABLE, CONFIG, tmp_path, patterns="base")


@pytest.mark.parametrize("num_samples", [0, 2])
def test_translations_are_printed_if_they_are_asked_for(tmp_path, capsys, num_samples):
    write_run(tmp_path, "base", references(line0="Da sind wir."))
    assert sweep.run_table(TABLE, CONFIG, tmp_path, patterns="base", num_samples=num_samples) == 0
    said = capsys.readouterr().out
    assert ("| base | Da sind wir. |" in said) == (num_samples > 0)
    assert "| base | Da sind wir. |" in (tmp_path / "report.md").read_text("utf-8")


def _command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["table3", "--base=configs/tiny.py", "--base.model.nheads=3"],
            "no key --base.model.nheads",
        ),
        (["table3", "--base=configs/tiny.py", "--dry_run", "--rows=Z.*"], "no row is called 'Z.*'"),
        (["table3"], "--base is needed"),
        (["table3", "--base=configs/tiny.py", "--dry_run", "--slurm=time=9"], "--slurm is for"),
        (["table3", "--base=configs/absent.py", "--dry_run"], "configs/absent.py"),
        (
            ["heads", "--base=configs/language_model.py", "--samples=2", "--workdir=absent"],
            "this base does not translate",
        ),
        (
            ["--help=model"],
            "sweep: --help takes no value here; t2t-jax train --help=model lists keys of a",
        ),
        (["table3", "--base=configs/tiny.py", "--trials=5"], "--trials is for --tune"),
        (
            [
                "table3",
                "--base=configs/tiny.py",
                "--dry_run",
                "--tune=model.d_ff=[8,9]",
                "--trials=2",
            ],
            "row C.d_ff=128 changes nothing but model.d_ff, which --tune sets in every row",
        ),
        (
            ["table3", "--base=configs/tiny.py", "--plan=v5e-8", "--equal=flops"],
            "--equal changes nothing in a --plan",
        ),
        (
            ["table3", "--base=configs/tiny.py", "--dry_run", "--calibrate=W"],
            "--calibrate is for --plan",
        ),
        (
            [
                *("table3", "--base=configs/tiny.py", "--dry_run", "--equal=flops"),
                *("--rows=base,A.*", "--tune=model.d_ff=[128,512]"),
            ],
            "--tune=model.d_ff changes what an update costs",
        ),
        (["table3", "--dry_run=5"], "sweep: --dry_run=5 is neither true nor false"),
        (["score", "W", "--rows=base"], "--rows is for a table"),
        (["status", "W", "--source=f"], "--source is for score W"),
        (["table3", "--base=configs/tiny.py", "--once"], "--once is for status W"),
        (["table3", "--base=configs/tiny.py", "--base.model.num_heads=0"], "base: model.num_heads"),
    ],
)
def test_a_mistyped_command_ends_in_a_sentence(arguments, sentence):
    done = module("experiments.sweep", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("sweep: ") and sentence in done.stderr


def test_overrides_reach_the_rows_and_help_shows_the_commands():
    flags = ["--base=configs/tiny.py", "--base.model.num_heads=8", "--dry_run", "--rows=A.*"]
    assert "A.h=32" in _command("experiments.sweep", "table3", *flags).stdout
    shown = _command("experiments.sweep", "--help").stdout
    assert "--rows='base,A.*'" in shown and "--[no]dry_run" in shown


def test_the_quickstart_command_is_the_sweep_of_its_table():
    said = _command("experiments.quickstart", "--dry_run", "--base.model.d_ff=64").stdout
    assert "one_head" in said and "no_positions" in said
    assert io.StringIO(said).readline() == TABLE.title + "\n"


@pytest.mark.parametrize("program", ["experiments.sweep", "experiments.report"])
def test_output_may_be_cut_off(program, tmp_path):
    arguments = ["table3", "--base=configs/tiny.py", "--dry_run", "--rows=base"]
    if program == "experiments.report":
        arguments = [str(write_sweep(tmp_path))]
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", program, *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=120)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
    assert (tmp_path / "report.md").exists() == (program == "experiments.report")


def test_what_makes_batches_is_not_loaded_before_rows_are_made_equal():
    code = "import sys, experiments.sweep.sweep; print({'jax', 't2t_jax.data'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_garbage_is_collected_again_after_a_dry_run(monkeypatch):
    seen = []

    def fails(*_):
        seen.append(gc.isenabled())
        raise ValueError("no such table")

    monkeypatch.setattr(command.flags, "FLAGS", types.SimpleNamespace(dry_run=True))
    monkeypatch.setattr(command, "_run_table", fails)
    monkeypatch.setattr(command, "_check_verb", lambda *_: None)
    with pytest.raises(SystemExit, match="no such table"):
        command.main(["sweep", "table3"])
    assert seen == [False] and gc.isenabled()


def test_ctrl_c_before_any_run_ends_in_a_sentence(monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command.flags, "FLAGS", types.SimpleNamespace(dry_run=False))
    monkeypatch.setattr(command, "_run_table", stopped)
    monkeypatch.setattr(command, "_check_verb", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        command.main(["sweep", "table3"])
    assert end.value.code == 130
    assert "sweep: stopped; run the same command again to go on" in capsys.readouterr().err


def test_a_sweep_with_a_failed_run_ends_with_1(monkeypatch):
    monkeypatch.setattr(command.flags, "FLAGS", types.SimpleNamespace(once=False, dry_run=False))
    monkeypatch.setattr(command, "_check_verb", lambda *_: None)
    for num_failed, code in ((0, 0), (2, 1)):
        monkeypatch.setattr(command, "_run_table", lambda *_, number=num_failed: number)
        with pytest.raises(SystemExit) as end:
            command.main(["sweep", "table3"])
        assert end.value.code == code
