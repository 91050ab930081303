"""One row, one seed: trains, scores, and leaves one JSON record.

The form a launcher uses, with the directory that experiments.sweep has prepared:

    python -m experiments.run RUN_DIRECTORY

The form a person uses; it prepares W/table3/A.h=1/seed-0 itself:

    python -m experiments.run table3 --row=A.h=1 --base=configs/tiny.py --seed=0 --workdir=W

Any key of the base config can be overridden: --base.training.steps=200. The same command again
continues where it stopped, and does nothing once there is a record.json. With --together the other
seeds of the row that are prepared beside it are trained by the same program.
"""

import contextlib
import functools
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags
from ml_collections import ConfigDict, config_flags

from experiments import presence, record, tables
from experiments.ablation import AnyConfig, check_config
from experiments.launchers.event import IS_TAKEN
from experiments.record import Run
from t2t_jax.cli.command import parse_flags
from t2t_jax.locks import IsTakenError

_PACKAGES = (
    *("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy"),
    *("sentencepiece", "sacrebleu"),
)
_OF_TRAINING = (
    *("direction", "data_fingerprint", "vocabulary_fingerprint", "params", "steps"),
    *("target_tokens", "seeds_together", "hardware"),
)


def run(directory: Path) -> dict[str, Any]:
    """Trains and scores the run in `directory`; gives and writes its record.

    Whatever is finished already is not done again. A failure leaves `failure.json` and is raised.

    Raises:
      Stopped: a signal asked for it; the training saved its state.
    """
    return run_together([directory])[0]


def run_together(directories: Sequence[Path]) -> list[dict[str, Any]]:
    """`run` of several directories, which differ in their seed, trained by one program.

    Raises:
      Stopped: a signal asked for it; the training saved its state.
    """
    unfinished = [path for path in directories if not (path / record.RECORD_FILE).exists()]
    if unfinished:
        # Here and not above: it brings jax, which --help and a mistyped flag need not wait for.
        from t2t_jax import hosts
        from t2t_jax.training.loop import Stopped

        for directory in unfinished if hosts.is_first() else ():
            (directory / record.FAILURE_FILE).unlink(missing_ok=True)
        try:
            found = {path: record.read_run(path) for path in unfinished}
            _train(found)
            for directory, this_run in found.items():
                values = _scored(this_run, directory)
                if hosts.is_first():
                    record.write_json(directory / record.RECORD_FILE, values)
            hosts.wait("the runs are recorded")
        except (Stopped, IsTakenError):
            raise
        except Exception as error:
            sentence = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            for directory in unfinished if hosts.is_first() else ():
                if not (directory / record.RECORD_FILE).exists():
                    record.write_json(directory / record.FAILURE_FILE, {"error": sentence})
            raise
    return [record.read_json(path / record.RECORD_FILE) for path in directories]


def beside(directory: Path) -> list[Path]:
    """This run and those of other seeds that can be trained with it: as far, and without patience.

    None of these has a record yet.
    """
    if record.read_run(directory).config["training"]["patience"] > 0:
        return [directory]
    siblings = [
        path.parent
        for path in sorted(directory.parent.glob(f"*/{record.RUN_FILE}"))
        if not (path.parent / record.RECORD_FILE).exists()
    ]
    config = _without_seed(directory)
    step = _last_step(directory)
    return [
        path for path in siblings if _last_step(path) == step and _without_seed(path) == config
    ] or [directory]


def _without_seed(directory: Path) -> dict[str, Any]:
    return record.read_run(directory).config | {"seed": None}


def _last_step(directory: Path) -> int:
    names = [path.name for path in (directory / "checkpoints").glob("*")]
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _train(runs: Mapping[Path, Run]) -> None:
    from t2t_jax.cli import train

    config = ConfigDict(next(iter(runs.values())).config).lock()
    if len(runs) == 1:
        train.train(config, next(iter(runs)))
    else:
        train.train_together(config, {this_run.seed: path for path, this_run in runs.items()})


def _scored(this_run: Run, directory: Path) -> dict[str, Any]:
    from t2t_jax.cli import score

    training = record.read_json(directory / "training.json")
    start = time.monotonic()
    evaluation = this_run.config["evaluation"]
    splits = {"dev": evaluation["bleu_on_dev"], "test": True}
    if evaluation["bleu_on_long"]:
        splits["long"] = True
    scores = score.score_splits(directory, splits)
    seconds = {"train": training["seconds"], "score": time.monotonic() - start}
    return (
        {"format": record.FORMAT, **this_run._asdict(), "commit": commit()}
        | {key: training[key] for key in _OF_TRAINING}
        | {"scores": scores, "seconds": seconds, "versions": versions()}
    )


def commit() -> str:
    """The git commit of this code, "-dirty" after it where files differ from it.

    Where the code came without its repository, who sent it says T2T_JAX_COMMIT.
    """
    if "T2T_JAX_COMMIT" in os.environ:
        return os.environ["T2T_JAX_COMMIT"]
    try:
        head = _git("rev-parse", "HEAD")
        dirty = "-dirty" if _git("status", "--porcelain", "--untracked-files=no") else ""
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + dirty


def _git(*arguments: str) -> str:
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def define_flags() -> None:
    """The command's flags; not at import, since sweep has flags of the same names."""
    flags.DEFINE_string("row", None, "the row's name; sweep TABLE --dry_run prints all names")
    config_flags.DEFINE_config_file("base", None, "the base config, a file of configs/")
    flags.DEFINE_integer("seed", None, "the run's seed (default: the base config's)")
    flags.DEFINE_string("workdir", None, "where TABLE/ROW/seed-N goes")
    flags.DEFINE_bool("together", False, "train the row's other seeds by the same program")


def _prepared_directory(table_name: str) -> Path:
    values = flags.FLAGS
    table = tables.find_table(table_name)
    for flag in ("row", "base", "workdir"):
        if values[flag].value is None:
            raise ValueError(f"with the name of a table, --{flag} is needed")
    base: AnyConfig = values.base
    row = table.rows(base).named(values.row)
    check_config(row.config(base), f"row {row.name}")
    seed = base.seed if values.seed is None else values.seed
    this_run = record.make_run(table, row, base, seed)
    directory = Path(values.workdir).expanduser() / this_run.directory
    record.write_run(directory, this_run)
    return directory


def main(argv: list[str]) -> None:
    """Reads the flags and runs."""
    if len(argv) != 2:
        sys.exit("run: one argument is needed, a run directory or a table; see --help")
    try:
        is_directory = (Path(argv[1]) / record.RUN_FILE).exists()
        directory = Path(argv[1]) if is_directory else _prepared_directory(argv[1])
    except (KeyError, TypeError, ValueError) as error:
        sys.exit(f"run: {error.args[0]}")
    except OSError as error:
        sys.exit(f"run: {error}")

    from t2t_jax import hosts
    from t2t_jax.training.loop import Stopped

    try:
        hosts.join()
        _keep_compiled(record.read_run(directory).config["data"]["cache"])
        records = _run_all(directory, flags.FLAGS.together)
    except Stopped as stop:
        print(f"run: {stop}", file=sys.stderr)
        sys.exit(130)
    except IsTakenError as error:
        hosts.leave(f"run: {error}", error, IS_TAKEN)
        print(f"run: {error}", file=sys.stderr)
        sys.exit(IS_TAKEN)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        traceback.print_exc()  # into the log of the run; a person finds the reason in the last line
        hosts.leave(f"run: {error}", error)
        sys.exit(f"run: {error}")
    for path, values in records.items() if hosts.is_first() else ():
        print(f"{path / record.RECORD_FILE}: {record.score_text(values)}")


def _keep_compiled(cache: str) -> None:
    """Has JAX keep what it compiles: on this machine seeds, some rows and retries find it again.

    Its directory may be deleted. It is another one where the environment says so, and none where
    several hosts must compile together.
    """
    import jax

    from t2t_jax import hosts
    from t2t_jax.data.workers import own_cores

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and not hosts.are_several():
        # What is compiled for a CPU depends on which one and on the number of cores.
        machine = f"{platform.node()}-{len(own_cores())}"
        here = Path(cache).expanduser() / "compiled" / machine
        jax.config.update("jax_compilation_cache_dir", str(here))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def _run_all(directory: Path, together: bool) -> dict[Path, dict[str, Any]]:
    """The records by directory: of this run, or of all the seeds of its row."""
    from t2t_jax import hosts

    records: dict[Path, dict[str, Any]] = {}
    found = [directory]
    if together:
        found = [path.parent for path in sorted(directory.parent.glob(f"*/{record.RUN_FILE}"))]
    waiting = list(found)
    diverged: FloatingPointError | None = None
    while waiting:
        # Where one of a group has diverged, which one it was is found one by one.
        group = beside(waiting[0]) if together and diverged is None else [waiting[0]]
        try:
            with contextlib.ExitStack() as stack:
                for path in group if hosts.is_first() else []:
                    stack.enter_context(presence.present(path))
                records |= dict(zip(group, run_together(group), strict=True))
        except FloatingPointError as error:
            diverged = error
            waiting = waiting[1:] if len(group) == 1 else waiting
            continue
        waiting = [path for path in waiting if path not in records]
    if diverged is not None and len(records) < len(found):
        raise diverged
    return records


if __name__ == "__main__":
    define_flags()
    app.run(main, flags_parser=functools.partial(parse_flags, "run"))
