"""Trainings that are killed, or told to stop, at random moments, and then finish."""

import random
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.faults.count import Count
from tests.faults.trainings import Moment, Trainings, half_written, killed

_MOST_IN_A_RUN = 5


class Run(NamedTuple):
    """A run that was killed, and then came to its end or did not."""

    moments: tuple[Moment, ...]  # those that came before it had ended
    num_writing: int  # of them while a checkpoint was written
    wrong: tuple[str, ...]


def killed_run(trainings: Trainings, workdir: Path, kills: Iterable[tuple[int, Moment]]) -> Run:
    """Sends each signal at its moment, one start after the other; the end must be the same bits."""
    moments, wrong, writing = [], [], 0
    for number, moment in kills:
        process = trainings.start(workdir)
        in_time = trainings.disturb(process, workdir, moment)
        errors = killed(process, number)
        if not in_time:
            break
        moments.append(moment)
        writing += half_written(workdir)
        if "Traceback" in errors and number != signal.SIGKILL:
            wrong.append(errors)
    try:
        trainings.finish(workdir)
        wrong += trainings.differences(workdir)
    except (OSError, RuntimeError, ValueError) as error:
        wrong.append(str(error))
    return Run(tuple(moments), writing, tuple(wrong))


def kills(trainings: Trainings, directory: Path, num: int, number: int, seed: int) -> Count:
    """Sends the signal `number` so often, at random moments, up to five times to each run."""
    draws = random.Random(f"{seed} {number}")
    name = signal.Signals(number).name
    tried = writing = runs = 0
    lost = []
    while tried < num:
        workdir = directory / f"{name}-{runs}"
        runs += 1
        most = min(_MOST_IN_A_RUN, num - tried)
        drawn = ((number, Moment.drawn(draws, seconds_to_train=1.5)) for _ in range(most))
        run = killed_run(trainings, workdir, drawn)
        tried += len(run.moments)
        writing += run.num_writing
        if run.wrong:
            told = "; ".join(run.wrong)
            lost.append(f"{name} of run {runs} with seed {seed}, {run.moments}: {told}")
        else:
            shutil.rmtree(workdir)
    remark = f"in {runs} runs of {trainings.STEPS} steps, same bits and metrics at the end"
    if number == signal.SIGKILL:
        remark += f"; {writing} while a checkpoint was written"
    return Count(f"{name} at a random moment", tried, tuple(lost), remark)
