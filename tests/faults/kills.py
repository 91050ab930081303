"""Trainings that are killed, or told to stop, at random moments, and then come to their end."""

import random
import shutil
import signal
from pathlib import Path

from tests.faults.count import Count
from tests.faults.trainings import Moment, Trainings, half_written, killed

_MOST_IN_A_RUN = 5


def kills(trainings: Trainings, directory: Path, num: int, number: int, seed: int) -> Count:
    """Sends the signal `number` so often; each run, of up to five, must end in the same bits."""
    draws = random.Random(f"{seed} {number}")
    name = signal.Signals(number).name
    tried = writing = runs = 0
    lost = []
    while tried < num:
        workdir = directory / f"{name}-{runs}"
        runs += 1
        moments, wrong = [], []
        for _ in range(min(_MOST_IN_A_RUN, num - tried)):
            moment = Moment.drawn(draws, seconds_to_train=1.5)
            process = trainings.start(workdir)
            in_time = trainings.disturb(process, workdir, moment)
            errors = killed(process, number)
            if not in_time:
                break
            moments.append(moment)
            writing += half_written(workdir)
            if "Traceback" in errors and number != signal.SIGKILL:
                wrong.append(errors)
        tried += len(moments)
        try:
            trainings.finish(workdir)
            wrong += trainings.differences(workdir)
        except (OSError, RuntimeError, ValueError) as error:
            wrong.append(str(error))
        if wrong:
            lost.append(f"{name} of run {runs} with seed {seed}, {moments}: {'; '.join(wrong)}")
        else:
            shutil.rmtree(workdir)
    remark = f"in {runs} runs of {trainings.STEPS} steps, same bits and metrics at the end"
    if number == signal.SIGKILL:
        remark += f"; {writing} while a checkpoint was written"
    return Count(f"{name} at a random moment", tried, tuple(lost), remark)
