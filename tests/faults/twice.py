"""Two of everything at once: one does the work, the other waits for it, nothing is broken."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from t2t_jax.json_files import read_json
from tests.faults.count import Count
from tests.faults.trainings import Trainings, ended


def trains(trainings: Trainings, directory: Path, num: int) -> Count:
    """Two trainings in one directory."""

    def wrong_of(place: Path) -> str:
        workdir = place / "run"
        both = [trainings.start(workdir) for _ in range(2)]
        return _wrong(both) or "; ".join(trainings.differences(workdir))

    return _counted("two train in one directory", directory, num, wrong_of)


def prepares(trainings: Trainings, directory: Path, num: int) -> Count:
    """Two that prepare one corpus."""

    def wrong_of(place: Path) -> str:
        flag = f"--config.data.cache={place / 'cache'}"
        both = [trainings.start(place, flag, verb="prepare") for _ in range(2)]
        if wrong := _wrong(both):
            return wrong
        expected = _files(trainings.config.parent / "cache")
        found = _files(place / "cache")
        return "" if found == expected else f"files {sorted(found)}, not {sorted(expected)}"

    return _counted("two prepare one corpus", directory, num, wrong_of)


def sweeps(trainings: Trainings, directory: Path, num: int) -> Count:
    """Two sweeps in one directory, whose runs train and are scored."""

    def wrong_of(place: Path) -> str:
        command = ["-m", "experiments.sweep", "quickstart", f"--base={trainings.config}"]
        command += ["--rows=base,one_layer", f"--workdir={place}", "--parallel=1"]
        command += ["--base.training.steps=12", "--base.model.num_encoder_layers=2"]
        both = [trainings.start_python(*command) for _ in range(2)]
        outputs = [process.communicate(timeout=600) for process in both]
        # Who comes to a run that the other does may tell it as one that failed here.
        if any("Traceback" in errors for _, errors in outputs):
            return str(outputs)
        if all(process.returncode for process in both):
            return str(outputs)
        for row in ("base", "one_layer"):
            values = read_json(place / "quickstart" / row / "seed-0" / "record.json")
            if values["steps"] != 12 or "bleu" not in values["scores"]["test"]:
                return str(values)
        return ""

    return _counted("two sweeps in one directory", directory, num, wrong_of)


def _counted(what: str, directory: Path, num: int, wrong_of: Callable[[Path], str]) -> Count:
    lost = []
    for number in range(num):
        place = directory / str(number)
        place.mkdir()
        if wrong := wrong_of(place):
            lost.append(f"{what}, pair {number}: {wrong}")
    return Count(what, num, tuple(lost), "one does it, the other waits")


def _wrong(processes: list[subprocess.Popen]) -> str:
    """How one of them has failed; empty if none has."""
    told = []
    for process in processes:
        try:
            ended(process)
        except RuntimeError as error:
            told.append(str(error))
    return "; ".join(told)


def _files(cache: Path) -> dict[str, bytes]:
    """Names and contents of the arrays and the vocabulary in a cache."""
    return {
        str(path.relative_to(cache)): path.read_bytes()
        for path in cache.rglob("*")
        if path.suffix in (".bin", ".model")
    }
