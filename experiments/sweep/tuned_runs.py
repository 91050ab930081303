"""The runs at the values chosen by trials, once all trials of their row are over.

In: directories of prepared runs. Out: run.json rewritten with the chosen point.
"""

import copy
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.run import record
from experiments.run.outcomes import Outcome, read_outcomes
from experiments.run.trials import best, trials_of
from experiments.tables.ablation import changes_text
from t2t_jax.json_files import flat_dict


def settle(directories: Sequence[Path], say: Callable[[str], None]) -> list[Path]:
    """Gives waiting runs their point if the trials of their row are over; returns the runs left.

    A run is removed if its row has the chosen point already, since the row's own runs serve, or if
    all trials of its row diverged. Each case is printed once per row. Runs that another command has
    removed are left out.
    """
    left, said = [], set()

    def say_once(sentence: str) -> None:
        if sentence not in said:
            said.add(sentence)
            say(f"        {sentence}")

    for directory in directories:
        if not (directory / record.RUN_FILE).exists():
            continue
        run = record.read_run(directory)
        if run.tuning is None or run.kind != "tuned" or record.is_finished(directory):
            left.append(directory)
            continue
        number = run.tuning["trials"]
        trials = trials_of(_trials(directory.parent), number)
        if len(trials) < number:
            left.append(directory)
            continue
        point, config = best(trials), flat_dict(run.config)
        is_own = point is not None and all(config[key] == point[key] for key in point)
        if run.awaits_trials and (point is None or is_own):
            why = "is not tuned: each of its trials diverged"
            if point is not None:
                why = f"has {changes_text(point)} already, which was chosen: its own runs serve"
            say_once(f"{run.row} {why}")
            shutil.rmtree(directory)  # it has never run: at most somebody has tried
            continue
        if point is not None:
            if run.awaits_trials:
                say_once(f"{run.row} goes on with {changes_text(point)}")
            record.write_run(directory, _at(run, point))
        left.append(directory)
    return left


def _trials(row: Path) -> list[Outcome]:
    return [each for path in sorted(row.glob("trial-*")) for each in read_outcomes(path).runs]


def _at(run: record.Run, point: dict[str, Any]) -> record.Run:
    config = copy.deepcopy(run.config)
    for key, value in point.items():
        section, _, name = key.partition(".")
        config[section][name] = value
    return run._replace(config=config, tuning={**(run.tuning or {}), "point": point})
