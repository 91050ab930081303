"""One row, one seed: trains, scores, and leaves one JSON record."""

import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from experiments.run import presence, record
from experiments.run.record import Run
from t2t_jax.json_files import write_bytes
from t2t_jax.locks import IsTakenError

_PACKAGES = (
    *("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy"),
    *("sentencepiece", "sacrebleu"),
)
_TOLD = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_PLATFORMS")
_OF_TRAINING = (
    *("direction", "data_fingerprint", "vocabulary_fingerprint", "params", "steps"),
    *("target_tokens", "hardware"),
)


def run(directory: Path) -> dict[str, Any]:
    """Trains and scores the run in `directory`; gives and writes its record.

    What is finished already is not done again. A failure leaves `failure.json` and is raised.

    Raises:
      Stopped: a signal asked for it; the training saved its state.
    """
    record_file, failure_file = directory / record.RECORD_FILE, directory / record.FAILURE_FILE
    if record_file.exists():
        return record.read_record(directory)
    # Here and not above: it brings jax, which --help and a mistyped flag need not wait for.
    from t2t_jax import hosts
    from t2t_jax.runs.sections import read_sections
    from t2t_jax.runs.train import train
    from t2t_jax.training.loop import Stopped
    from t2t_jax.training.nonfinite import Diverged

    if hosts.is_first():
        failure_file.unlink(missing_ok=True)
    try:
        this_run = record.read_run(directory)
        if this_run.awaits_trials:
            raise ValueError(
                f"{directory} waits for the trials of its row: the sweep goes on with it"
            )
        its_commit, diff = commit(), uncommitted()  # now: the code may be another at the end
        sign = presence.read(directory)
        started = time.time() if sign is None else sign.started
        begun = time.monotonic()
        try:
            in_loop = train(read_sections(ConfigDict(this_run.config)), directory)
            values = _scored(this_run, directory)
        except Diverged as error:
            if this_run.kind != "trial":
                raise
            in_loop = time.monotonic() - begun
            values = _of_diverged(this_run, str(error), in_loop)
        overhead = time.time() - started - in_loop - values["seconds"]["score"]
        values |= {"overhead_seconds": max(0.0, overhead), "commit": its_commit}
        if hosts.is_first():
            if diff:
                write_bytes(directory / record.DIFF_FILE, diff)
            record.write_json(record_file, values)
        hosts.wait("the run is recorded")
    except (Stopped, IsTakenError):
        raise
    except Exception as error:
        # Of one that has diverged the message says so itself.
        kind = "" if isinstance(error, Diverged) else f"{type(error).__name__}: "
        sentence = f"{kind}{error}".strip().splitlines()[0]
        if hosts.is_first() and not record_file.exists():
            record.write_json(failure_file, {"error": sentence})
        raise
    return values


def _of_diverged(this_run: Run, sentence: str, seconds: float) -> dict[str, Any]:
    """What is recorded of a trial that diverged: that it has lost."""
    return {
        "format": record.FORMAT,
        **this_run._asdict(),
        "diverged": sentence.strip().splitlines()[0],
        "scores": {"dev": {"perplexity": None}},
        "seconds": {"train": seconds, "score": 0.0},
        "versions": versions(),
    }


def _scored(this_run: Run, directory: Path) -> dict[str, Any]:
    from t2t_jax.runs.score import score_splits
    from t2t_jax.runs.sections import read_sections

    training = _training(directory / "training.json")
    start = time.monotonic()
    evaluation = this_run.config["evaluation"]
    splits = {"dev": evaluation["bleu_on_dev"], "test": True}
    if evaluation["bleu_on_long"]:
        splits["long"] = True
    if this_run.kind == "trial":
        splits = {"dev": False}  # it is chosen by perplexity, and test is for those chosen
    # As run.json says, not as config.json: of that no path is followed.
    scores = score_splits(directory, splits, read_sections(ConfigDict(this_run.config)))
    seconds = {"train": training["seconds"], "score": time.monotonic() - start}
    return (
        {"format": record.FORMAT, **this_run._asdict()}
        | {key: training[key] for key in _OF_TRAINING}
        # Which runs of before did not count.
        | {key: training.get(key, {}) for key in ("examples", "operations")}
        | {"scores": scores, "seconds": seconds, "versions": versions()}
    )


def _training(path: Path) -> dict[str, Any]:
    """What training has left.

    Raises:
      ValueError: it is damaged; says which file.
    """
    values = record.read_json(path)
    if missing := [key for key in (*_OF_TRAINING, "seconds") if key not in values]:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    return values


def commit() -> str:
    """The git commit of this code, "-dirty" after it where files differ from it: `uncommitted`.

    Where the code came without its repository, who sent it says T2T_JAX_COMMIT.
    """
    if "T2T_JAX_COMMIT" in os.environ:
        return os.environ["T2T_JAX_COMMIT"]
    try:
        head = _git("rev-parse", "HEAD").decode().strip()
        dirty = _git("status", "--porcelain", "--untracked-files=no") or _untracked()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("-dirty" if dirty else "")


def uncommitted() -> bytes:
    """In what the files of this code differ from the commit, as `git apply` takes it.

    A Python file that was never added is one of them: a table of one's own, say. Empty where
    nothing does, or where the code came without its repository.
    """
    if "T2T_JAX_COMMIT" in os.environ:
        return b""
    try:
        # Whatever the person's git shows in colour, or by a program of its own.
        plain = ("--binary", "--no-color", "--no-ext-diff", "--no-textconv")
        in_top = ("-C", _git("rev-parse", "--show-toplevel").decode().strip())
        diff = _git(*in_top, "diff", *plain, "HEAD")
        for name in _untracked():
            new = ("--no-index", "--", "/dev/null", name)
            diff += _git(*in_top, "diff", *plain, *new, codes=(0, 1))  # 1: they differ
        return diff
    except (OSError, subprocess.CalledProcessError):
        return b""


def _untracked() -> list[str]:
    """Python files that can be imported and no commit has, ignored ones too; from the top."""
    files = (f"{folder}/*.py" for folder in ("configs", "experiments", "t2t_jax"))
    listed = _git("ls-files", "--others", "--full-name", "-z", "--", *files)
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _git(*arguments: str, codes: Collection[int] = (0,)) -> bytes:
    root = Path(__file__).resolve().parents[2]
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True)
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, command)
    return done.stdout


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on, and what the compiler was told."""
    import jax
    import jax.extend

    found = {"python": platform.python_version()}
    # Of an accelerator its plugin, and the driver or compiler with it.
    found["backend"] = " ".join(jax.extend.backend.get_backend().platform_version.split())
    found["generator"] = str(jax.random.key_impl(jax.random.key(0)))
    found |= {name: os.environ[name] for name in _TOLD if name in os.environ}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
