"""One row, one seed: trains, scores, and writes one JSON record."""

import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from experiments.run import accelerators, presence, record
from experiments.run.record import Run
from t2t_jax.json_files import write_bytes
from t2t_jax.locks import IsTakenError

_PACKAGES = (
    *("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy"),
    *("sentencepiece", "sacrebleu"),
    *accelerators.PACKAGES,
)
_TOLD = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_PLATFORMS")
_OF_TRAINING = (
    *("direction", "data_fingerprint", "vocabulary_fingerprint", "params", "steps"),
    *("target_tokens", "hardware"),
)


def run(directory: Path) -> dict[str, Any]:
    """Trains and scores the run in `directory`; writes and returns its record.

    Finished parts are not repeated. A failure writes `failure.json` and is raised.

    Raises:
      Stopped: a signal asked for it; the training saved its state.
    """
    record_file, failure_file = directory / record.RECORD_FILE, directory / record.FAILURE_FILE
    if record_file.exists():
        return record.read_record(directory)
    # Not at the top: they import jax, which would slow down --help and mistyped flags.
    from t2t_jax import buckets, hosts
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
        its_commit, diff = commit(), uncommitted()  # now: the code may have changed by the end
        earlier = _earlier_commits(directory, its_commit)
        sign = presence.read(directory)
        before = 0.0 if sign is None else max(0.0, time.time() - sign.started)  # starting Python
        begun = time.monotonic()
        try:
            in_loop = train(read_sections(ConfigDict(this_run.config)), directory)
            _share(directory)
            values = _scored(this_run, directory)
        except Diverged as error:
            if this_run.kind != "trial":
                raise
            in_loop = time.monotonic() - begun
            values = _of_diverged(this_run, buckets.told(str(error)), in_loop)
        overhead = before + time.monotonic() - begun - in_loop - values["seconds"]["score"]
        values |= {"overhead_seconds": max(0.0, overhead), "commit": its_commit}
        if earlier:
            values["earlier_commits"] = ", ".join(earlier)
        if hosts.is_first():
            if diff:
                write_bytes(directory / record.DIFF_FILE, diff)
            record.write_json(record_file, values)
            buckets.upload(directory)  # before others leave, who wait for us only for a while
        hosts.wait("the run is recorded")
    except (Stopped, IsTakenError):
        raise
    except Exception as error:
        sentence = _sentence(error, directory)
        if hosts.is_first() and not record_file.exists():
            record.write_json(failure_file, {"error": sentence})
        raise
    return values


def _sentence(error: Exception, directory: Path) -> str:
    """An error in one line: what a failure file says."""
    import jax

    from t2t_jax import buckets, memory
    from t2t_jax.runs import memory_advice
    from t2t_jax.training.nonfinite import Diverged

    if isinstance(error, jax.errors.JaxRuntimeError) and memory.is_exhausted(error):
        advice = memory_advice.IN_SCORING
        if not (directory / record.TRAINING_FILE).exists():
            config = record.read_run(directory).config
            task, microbatches = config["data"]["task"], config["training"]["microbatches"]
            advice = memory_advice.in_training(task, microbatches, "--base")
        return f"the device has not enough memory: {advice}"
    # The message of a divergence says so itself.
    kind = "" if isinstance(error, Diverged) else f"{type(error).__name__}: "
    return buckets.told(f"{kind}{error}").strip().splitlines()[0]


def _share(directory: Path) -> None:
    """Brings what the first host has written to the others, if the run is in a bucket."""
    from t2t_jax import buckets, hosts

    if hosts.is_first():
        buckets.upload(directory)
    hosts.wait("what training has left is there")
    if not hosts.is_first():
        buckets.fetch_again(directory)


def _of_diverged(this_run: Run, sentence: str, seconds: float) -> dict[str, Any]:
    """The record of a diverged trial: it has lost."""
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

    training = _training(directory / record.TRAINING_FILE)
    start = time.monotonic()
    # The config of run.json, not of config.json, whose paths are not to be followed.
    sections = read_sections(ConfigDict(this_run.config))
    splits = {"dev": False} | dict.fromkeys(sections.evaluation.translated_splits, True)
    if this_run.kind == "trial":
        splits = {"dev": False}  # trials are compared by perplexity; test is for the chosen one
    scores = score_splits(directory, splits, sections)
    seconds = {"train": training["seconds"], "score": time.monotonic() - start}
    return (
        {"format": record.FORMAT, **this_run._asdict()}
        | {key: training[key] for key in _OF_TRAINING}
        # Runs of older versions did not count these.
        | {key: training.get(key, {}) for key in ("examples", "operations")}
        | {"scores": scores, "seconds": seconds, "versions": versions()}
    )


def _training(path: Path) -> dict[str, Any]:
    """The file that training wrote.

    Raises:
      ValueError: it is damaged; names the file.
    """
    values = record.read_json(path)
    if missing := [key for key in (*_OF_TRAINING, "seconds") if key not in values]:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    return values


def commit() -> str:
    """The git commit of this code, with "-dirty" if files differ from it: see `uncommitted`.

    If the code was sent without its repository, the sender sets T2T_JAX_COMMIT.
    """
    if "T2T_JAX_COMMIT" in os.environ:
        return os.environ["T2T_JAX_COMMIT"]
    try:
        head = _git("rev-parse", "HEAD").decode().strip()
        dirty = _git("status", "--porcelain", "--untracked-files=no") or _untracked()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("-dirty" if dirty else "")


def _earlier_commits(directory: Path, now: str) -> list[str]:
    """The other commits at which what is there of this run was made; notes `now`."""
    from t2t_jax import buckets, hosts
    from t2t_jax.training.about import steps_in

    file = directory / record.COMMITS_FILE
    has_begun = bool(steps_in(buckets.checkpoints_of(directory)))
    known = file.read_text("utf-8", "replace").split() if has_begun and file.exists() else []
    if now not in known and hosts.is_first():
        write_bytes(file, "".join(f"{each}\n" for each in (*known, now)).encode())
    return [each for each in known if each != now]


def uncommitted() -> bytes:
    """The differences between this code and the commit, for `git apply`.

    They include untracked Python files, such as your own table. Empty if nothing differs, or if the
    code came without its repository.
    """
    if "T2T_JAX_COMMIT" in os.environ:
        return b""
    try:
        # Even if the user's git shows colour, or uses an external program.
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
    """Importable Python files that are in no commit, ignored ones too; paths from the top."""
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
    """Versions of everything the numbers depend on, and the compiler's options."""
    import jax
    import jax.extend

    from t2t_jax.row_keys import GENERATOR

    # Of a GPU the version of CUDA, of a TPU its kind and compiler.
    backend = " ".join(jax.extend.backend.get_backend().platform_version.split())
    found = {"python": platform.python_version(), "backend": backend, "generator": GENERATOR}
    return found | packages() | accelerators.nvidia()


def packages() -> dict[str, str]:
    """Those of `versions` that need no device: libraries, and the compiler's options."""
    found = {name: os.environ[name] for name in _TOLD if name in os.environ}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
