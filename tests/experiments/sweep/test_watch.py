"""What a sweep prints while it runs: the bar, the time left, which runs wait."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from experiments.launchers.event import Event
from experiments.run import presence, record
from experiments.sweep import prepared_runs, sweep, time_left, watch
from experiments.sweep.watch import Totals
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, prepared

KNOWN = time_left.Forecast(2400.0, "", [], 0.42)
UNKNOWN = time_left.Forecast(None, time_left.NOTHING_KNOWN, [], 0.0)


def test_the_bar_shows_all_where_there_is_room():
    found = Totals(12, done=5, running=2, failed=1, spent=720.0, forecast=KNOWN)
    assert watch.bar_text(found, 120) == (
        "[############..................] 42 %  5 of 12 done, 1 failed, 2 running, 4 waiting  "
        "after 12 min, about 40 min left"
    )
    unscored = found._replace(forecast=KNOWN._replace(missing=time_left.NO_SCORING))
    assert watch.bar_text(unscored, 140).endswith("about 40 min left  scoring not counted")
    held_up = found._replace(held_up="base seed-0")
    assert "base seed-0 waits" in watch.bar_text(held_up, 160)
    stopping = watch.bar_text(found._replace(is_stopping=True), 120)
    assert "2 stopping, 4 not begun  after 12 min, stopping" in stopping
    over = found._replace(done=11, running=0, forecast=KNOWN._replace(share=1.0))
    assert "] 100 %  11 of 12 done" in watch.bar_text(over, 120)


@pytest.mark.parametrize("forecast", [KNOWN, UNKNOWN])
def test_the_bar_is_one_line_at_any_width(forecast):
    found = Totals(120, 57, 16, 3, 7200.0, forecast, held_up="a seed-0, b seed-1")
    texts = [watch.bar_text(found, width) for width in range(200)]
    assert all(len(text) <= width for width, text in enumerate(texts))
    assert "left" in texts[40] and "57 of 120 done" in texts[40]


def test_a_line_after_each_run_tells_the_time_left(tmp_path, capsys):
    directories = prepared(tmp_path, "base,one_head,one_layer")

    def launch(directories):
        for directory in directories:
            yield Event(directory, "started", 0.0)
            took = {"seconds": {"train": 300.0, "score": 240.0}, "overhead_seconds": 60.0}
            fakes.write_record(
                *(tmp_path, TABLE, CONFIG, directory.parent.name, 0),
                **{"perplexity": 1.0, "bleu": 1.0, **took},
            )
            yield Event(directory, "finished", 600.0)

    assert prepared_runs.do_unfinished(directories, launch) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "to go" in line]
    # Base, of two layers, has told; as many heads take as long, and one layer takes less.
    assert lines[0] == "2 to go, about 18 min"
    assert lines[-1] == "1 to go, about 8 min"


def test_a_time_left_that_nobody_knows_is_no_part_of_the_line():
    found = Totals(3, done=0, running=1, failed=1, spent=9.0, forecast=UNKNOWN)
    assert watch.to_go_text(found) == "        2 to go"
    assert watch.to_go_text(found._replace(forecast=KNOWN)) == "        2 to go, about 40 min"


def test_where_no_terminal_is_the_first_time_left_that_is_known_is_told_once(tmp_path, capsys):
    [first, _] = directories = prepared(tmp_path, "base,one_head")
    looks = watch.Watch(directories)
    looks.started(first)
    looks._look()
    assert capsys.readouterr().out == ""
    sign = presence.Sign("elsewhere", 7, time.time() - 60, time.time(), "training")
    record.write_json(first / presence.RUNNING_FILE, sign._asdict())
    steps = CONFIG.training.steps
    (first / "metrics.jsonl").write_text(
        '{"split": "start", "step": 1, "seconds": 0.0}\n'
        f'{{"split": "train", "step": {steps // 2}, "seconds": 300.0}}\n'
    )
    for _ in range(2):
        looks._look()
    said = capsys.readouterr().out
    assert said == "        2 to go, about 15 min, without scoring, which no run has done yet\n"


def test_a_run_that_waits_for_another_process_is_named_once(tmp_path, capsys):
    [directory] = directories = prepared(tmp_path, "base")
    code = (
        "import pathlib, sys\n"
        "from experiments.run import presence\n"
        "with presence.present(pathlib.Path(sys.argv[1])):\n"
        "    pass\n"
    )
    with open(directory / ".lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-c", code, str(directory)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline().endswith("waiting for it\n")
            looks = watch.Watch(directories)
            looks.started(directory)
            deadline = time.monotonic() + 10
            while presence.waiting(directory) is None and time.monotonic() < deadline:
                time.sleep(0.05)
            for _ in range(2):
                looks._look()
            said = capsys.readouterr().out
            assert said == (
                f"        base seed-0 waits: another process works on the run in {directory}\n"
            )
            assert looks.totals().held_up == "base seed-0"
            # For the command whose run it waits for, it is none of its own.
            told = presence.waiting(directory)
            assert told is not None
            now = time.time()
            ours = presence.Sign(told.host, os.getpid(), now, now, "training")
            record.write_json(directory / presence.RUNNING_FILE, ours._asdict())
            record.write_json(directory / "waiting.json", {**told._asdict(), "parent": 1})
            looks._look()
            assert looks.totals().held_up == ""
            (directory / presence.RUNNING_FILE).unlink()
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert waiting.wait(20) == 0
    looks._look()
    assert looks.totals().held_up == "" and presence.waiting(directory) is None


def _on_a_terminal(code: str, columns: int) -> str:
    """What a person's terminal is sent by this Python code."""
    ours, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        parts = []
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # as Linux ends it
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    assert process.returncode == 0, b"".join(parts)
    return b"".join(parts).decode()


def test_a_terminal_has_a_bar_and_a_file_none(tmp_path):
    code = f"""
        import time
        from pathlib import Path
        from experiments.launchers.event import Event
        from experiments.sweep import prepared_runs, watch
        from tests.experiments import fakes
        from tests.experiments.sweeps import CONFIG, TABLE, prepared
        watch._SECONDS_BETWEEN_LOOKS = 0.1
        work = Path({str(tmp_path)!r}) / "terminal" / ("x" * 100)
        def launch(directories):
            for path in directories:
                yield Event(path, "started", 0.0)
                time.sleep(0.5)
                fakes.write_record(work, TABLE, CONFIG, path.parent.name, 0, perplexity=1, bleu=1)
                yield Event(path, "finished", 1.0)
        prepared_runs.do_unfinished(prepared(work, "base,one_head"), launch)
    """
    shown = _on_a_terminal(code, 90)
    assert "0 of 2 done" in shown and "1 of 2 done" in shown
    assert "base seed-0 finished in 1 s" in shown
    # The path of a log is longer than the terminal is wide, and in one piece.
    assert f"/{'x' * 100}/quickstart/base/seed-0/log.txt" in shown
    piped = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code).replace("terminal", "file")],
        capture_output=True,
        check=True,
        text=True,
    )
    assert "of 2 done" not in piped.stdout and "\x1b" not in piped.stdout
    assert "1 to go, about 64 s" in piped.stdout


def test_who_has_stopped_a_sweep_sees_that_it_stops(tmp_path):
    directories = prepared(tmp_path, "base")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    with sweep._told_when_it_stops() as stopping:
        looks = watch.Watch(directories, stopping=stopping)
        assert not looks.totals().is_stopping
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        assert looks.totals().is_stopping
    signal.signal(signal.SIGINT, before)


def test_one_run_is_not_told_in_the_plural(tmp_path, capsys):
    def launch(directories):
        yield Event(directories[0], "failed", 1.0, "why")

    prepared_runs.do_unfinished(prepared(tmp_path, "base"), launch)
    assert capsys.readouterr().out.startswith("1 run, 0 of them finished before\n")
