"""Trainings whose disk is full from a random moment on, until space is freed."""

import contextlib
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.faults.count import Count
from tests.faults.trainings import Moment, Trainings

_MEBIBYTES = 64
NAMES = "no space left on a tmpfs from a random moment on"


def full(trainings: Trainings, directory: Path, num: int, seed: int) -> Count:
    """Each run must say so in a sentence, and go on to the same bits when there is room again.

    The corpus is prepared on that disk too.
    """
    draws = random.Random(seed)
    tried = told = 0
    lost = []
    while tried < num:
        moment = Moment.drawn(draws, seconds_to_train=1.5)
        with _small_disk(directory) as disk:
            if disk is None:
                return Count(NAMES, 0, skipped="only root can make a small disk here")
            workdir, cache = disk / "run", f"--config.data.cache={disk / 'cache'}"
            process = trainings.start(workdir, cache)
            trainings.disturb(process, workdir, moment)
            _fill(disk / "ballast")
            _, errors = process.communicate(timeout=300)
            wrong = []
            if process.returncode:
                told += 1
                last = errors.strip().splitlines()[-1]
                if "Traceback" in errors or "No space left" not in last:
                    wrong.append(errors)
            (disk / "ballast").unlink()
            try:
                trainings.finish(workdir, cache)
                wrong += trainings.differences(workdir)
            except (OSError, RuntimeError, ValueError) as error:
                wrong.append(str(error))
        tried += 1
        if wrong:
            lost.append(f"full disk {tried} with seed {seed}, {moment}: {'; '.join(wrong)}")
    remark = f"{told} had to end; one sentence, and the same bits once there was room"
    return Count(NAMES, tried, tuple(lost), remark, in_time=told)


@contextlib.contextmanager
def _small_disk(directory: Path) -> Iterator[Path | None]:
    """A disk in memory; None where this process may make none."""
    disk = directory / "disk"
    disk.mkdir()
    size = f"size={_MEBIBYTES}m"
    command = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(disk)]
    is_made = False
    try:
        is_made = shutil.which("mount") is not None and not (
            subprocess.run(command, capture_output=True).returncode
        )
        yield disk if is_made else None
    finally:
        if is_made:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
        disk.rmdir()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
