"""Runs each seed as a process of its own, timed from outside, reusing nothing from before."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from experiments.benchmarks.records import machine
from experiments.launchers.event import last_line
from experiments.launchers.process import FASTER_ALLOCATION, TETHERED
from experiments.run.record import RUN_FILE
from experiments.run.run import commit, packages
from experiments.speedrun.rules import Seed, tricks, why_never
from experiments.speedrun.seed import CONFIG_FILE, FOUND_FILE
from t2t_jax.data.corpora.corpus import content_hashes
from t2t_jax.json_files import read_json, write_json
from t2t_jax.runs.sections import read_sections

_SEED_FILE = "seed.json"
# Chosen in advance: not as many as it takes, nor the best.
_CHOICE = ("number of seeds", "first seed")
# Tricks outside the config, and the place of kept programs; choosing the devices is allowed.
_TRICKS, _NO_TRICK = ("JAX_", "XLA_"), "JAX_PLATFORMS"


def run_seeds(config: Any, workdir: Path, num_seeds: int) -> tuple[dict[str, Any], list[Seed]]:
    """The facts all seeds share, by the fields of a record, and the seeds; done ones are kept.

    Says at once if they cannot count.

    Raises:
      ValueError: one failed, had another config, commit, machine or choice of seeds than the
        others, or would take the place of a run of a sweep.
    """
    for name in [*os.environ]:
        if name.startswith(_TRICKS) and name != _NO_TRICK:
            del os.environ[name]
    os.environ.update({**FASTER_ALLOCATION, **os.environ})
    here = {"config": tricks(config.to_dict()), "commit": commit()}
    here |= {"machine": machine(), **dict(zip(_CHOICE, (num_seeds, config.seed), strict=True))}
    text = content_hashes(read_sections(config).data)
    if why := why_never(here["config"], text, here["commit"], num_seeds):
        print(f"speedrun: what comes of this will not count: {why}", file=sys.stderr)
    numbers = range(config.seed, config.seed + num_seeds)
    directories = [workdir / f"seed-{number}" for number in numbers]
    for directory in directories:
        if (directory / _SEED_FILE).exists():  # before any other is run for nothing
            then = _check_same(directory, here).get("versions", {})
            _check_same(directory, {"versions": then | packages()})
        elif (directory / RUN_FILE).exists():
            raise ValueError(f"{directory} is a run of a sweep: choose another --workdir")
    common, seeds = here, []
    for number, directory in zip(numbers, directories, strict=True):
        if not (directory / _SEED_FILE).exists():
            shutil.rmtree(directory, ignore_errors=True)
            own = config.copy_and_resolve_references().unlock()
            own.seed, own.data.cache = number, str(directory / "cache")
            write_json(directory / CONFIG_FILE, own.to_dict())
            found = _run(directory)
            if (now := commit()) != here["commit"]:  # each process reads the code as it is then
                raise ValueError(
                    f"the code was {here['commit']} when the command began, now it is {now}: the "
                    f"results of {directory} are dropped"
                )
            write_json(directory / _SEED_FILE, here | {"seed": number} | found)
        values = _check_same(directory, common)
        seeds.append(Seed(**{field: values.pop(field) for field in Seed._fields}))
        common = values
        total = seeds[-1].seconds["total"]
        print(f"seed {number}: {seeds[-1].bleu:.2f} BLEU in {total:,.1f} s", flush=True)
    return {name: value for name, value in common.items() if name not in _CHOICE}, seeds


def _run(directory: Path) -> dict[str, Any]:
    total = seconds_of(directory)
    found = read_json(directory / FOUND_FILE)
    start = total - sum(found["seconds"].values())  # start and end of the process
    return found | {"seconds": {"start": start, **found["seconds"], "total": total}}


def seconds_of(directory: Path) -> float:
    """Runs the seed of a directory; returns its seconds.

    Raises:
      ValueError: it failed; the message has the last line of its log.
    """
    log = directory / "log.txt"
    started = time.monotonic()
    with log.open("w") as output:
        # It ends with this process: the next would time its seed beside it.
        command = [sys.executable, "-m", "experiments.speedrun.seed", str(directory)]
        done = subprocess.run([*TETHERED, *command], stdout=output, stderr=subprocess.STDOUT)
    if done.returncode:
        raise ValueError(f"{directory} failed, {log} has all of it: {last_line(log)}")
    return time.monotonic() - started


def _check_same(directory: Path, common: dict[str, Any]) -> dict[str, Any]:
    """The results of a seed; ValueError if it does not match `common`."""
    path = directory / _SEED_FILE
    values = read_json(path)
    if missing := [name for name in Seed._fields if name not in values]:
        raise ValueError(f"{path} is damaged, it lacks {missing[0]}: remove {directory}")
    for name, now in common.items():
        then = values.get(name)
        if then != now:
            if isinstance(now, dict) and isinstance(then, dict):
                keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
                name, then, now = f"{name} {keys[0]}", then.get(keys[0]), now.get(keys[0])
            raise ValueError(
                f"{path} was made with a different {name}: {then!r} there, {now!r} now; choose "
                f"another --workdir, or remove {directory} to run it anew"
            )
    return values
