"""A run that counts steps instead of training; it saves, stops and resumes like one.

    python -m tests.experiments.launchers.counting_run DIRECTORY

Each step leaves a line in steps.txt; every fifth one is saved. The score is a function of the row
and the counted steps: a step counted twice or left out changes it. DIRECTORY/pause pauses the run
after the step that it names, until the file is gone or the run is told to stop.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from experiments.run import presence

COMMAND = (sys.executable, "-m", __name__)

_STEPS, _STEPS_OF_A_LONG_RUN = 40, 4_000
_SECONDS_A_STEP = float(os.environ.get("COUNTING_SECONDS_A_STEP", "0.1"))
_STEPS_BETWEEN_CHECKPOINTS = 5


def main(directory: Path) -> None:
    """Counts from the last checkpoint to the last step, and scores."""
    stop_requests = []
    signal.signal(signal.SIGTERM, lambda *_: stop_requests.append(1))
    run = json.loads((directory / "run.json").read_text())
    if run["row"] == "one_head":
        sys.exit("no such thing")
    checkpoint = directory / "checkpoint.json"
    state = {"step": 0, "sum": 0}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
    num_steps = _STEPS_OF_A_LONG_RUN if run["row"] == "no_positions" else _STEPS
    while state["step"] < num_steps:
        time.sleep(_SECONDS_A_STEP)
        if state["step"] == _held_up_after(directory / "pause") and not stop_requests:
            continue
        state["step"] += 1
        state["sum"] = _next_sum(state["sum"], state["step"], run["row"])
        with open(directory / "steps.txt", "a") as file:
            file.write(f"{state['step']} {os.getpid()}\n")
        if state["step"] % _STEPS_BETWEEN_CHECKPOINTS == 0 or stop_requests:
            partial = directory / f"checkpoint.{os.getpid()}"
            partial.write_text(json.dumps(state))
            partial.replace(checkpoint)
        if stop_requests:
            print("stopped after a checkpoint")
            sys.exit(130)
    values = run | {"scores": _scores(state["sum"]), "steps": state["step"]}
    (directory / "record.json").write_text(json.dumps(values))


def _held_up_after(file: Path) -> int | None:
    try:
        return int(file.read_text() or -1)  # it may be in the middle of being written
    except FileNotFoundError:
        return None


def steps_of(directory: Path) -> list[tuple[int, int]]:
    """(step, process) as they were counted."""
    path = directory / "steps.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(step), int(pid)) for step, pid in map(str.split, lines)]


def scores_of(row: str) -> dict:
    """What comes of a run that counted every step once."""
    total = 0
    for step in range(1, _STEPS + 1):
        total = _next_sum(total, step, row)
    return _scores(total)


def _next_sum(total: int, step: int, row: str) -> int:
    return (31 * total + step + len(row)) % 9973


def _scores(total: int) -> dict:
    return {"dev": {"perplexity": 1 + total / 9973}, "test": {"bleu": 90.0}}


if __name__ == "__main__":
    with presence.present(Path(sys.argv[-1])):
        main(Path(sys.argv[-1]))
