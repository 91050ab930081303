"""What a run leaves in its directory, and how a verb uses it later.

config.json  vocabulary.model  classes.txt  checkpoints/  metrics.jsonl  tensorboard/  training.json
checkpoints_damaged/  nonfinite/STEP/  profile/
translations/NAME.txt  scores/NAME.json  scores/NAME.{sentences,statistics}.json
scores/NAME.checkpoints.jsonl

NAME is that of a split or a test set.

vocabulary.model is a tokenizer's directory if the run began with --init.
classes.txt has one name per line, in the order of the classes' numbers; only a classifier has it.
"""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import PyTree
from ml_collections import ConfigDict

from t2t_jax import buckets, hosts
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.data.vocabulary.vocabulary import Vocabulary
from t2t_jax.devices import Devices, make_devices
from t2t_jax.json_files import flat_dict, read_json, write_bytes, write_json
from t2t_jax.locks import SECONDS_FOR_THE_LOCK, IsTakenError, locked
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.model.interface import Model
from t2t_jax.runs.keys import (
    completed,
    is_of_the_model,
    may_change,
    own_cache,
    with_later_keys,
)
from t2t_jax.runs.pretrained import PretrainedModel, load_vocabulary
from t2t_jax.runs.sections import Sections, check_classes_fit, read_sections
from t2t_jax.training.about import steps_in
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.config import SCHEDULES_WITH_AN_END
from t2t_jax.training.nonfinite import check_params

_SECONDS_TO_APPEAR = 60.0


class NoRunError(ValueError):
    """A directory holds no run."""


class Trained(NamedTuple):
    """A trained model, ready for use."""

    sections: Sections
    vocabulary: Vocabulary
    model: Model
    params: PyTree
    devices: Devices
    step: int  # of the last checkpoint in it
    classes: tuple[str, ...] = ()  # names by number; none unless the task is classification
    opens_with_start: bool = True  # a language model reads START before a prompt; GPT-2 does not


UsableModel = Trained | PretrainedModel


def check_vocabulary(workdir: Path, vocabulary: Vocabulary) -> None:
    """Raises ValueError if the run in `workdir` was trained with another vocabulary."""
    path = workdir / "vocabulary.model"
    if path.exists() and (before := load_vocabulary(path).fingerprint) != vocabulary.fingerprint:
        raise ValueError(
            f"{workdir} was trained with the vocabulary {before}, but the corpus now gives "
            f"{vocabulary.fingerprint}: use another --workdir, or the corpus as it was"
        )


def check_place(workdir: Path) -> None:
    """Raises OSError unless `workdir` is, or can become, a directory that may be written to."""
    nearest = next(each for each in (workdir, *workdir.absolute().parents) if each.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"{workdir} cannot be the directory of a run: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(f"{workdir} cannot be written to: no permission in {nearest}")


@contextlib.contextmanager
def only_training(workdir: Path, patience: float = SECONDS_FOR_THE_LOCK) -> Iterator[None]:
    """Lets only one job at a time train in this directory; all its hosts must call it together.

    Args:
      patience: seconds to wait for another process to finish.

    Raises:
      IsTakenError: another process keeps training there.
      OSError: the directory cannot be created or locked.
    """
    refusal: OSError | None = None
    with contextlib.ExitStack() as stack:
        try:
            if hosts.is_first():
                workdir.mkdir(parents=True, exist_ok=True)
                does = f"trains in {buckets.name_of(workdir)}"
                if buckets.is_copy(workdir):
                    lock = buckets.locked(workdir, does, patience=patience, tell=hosts.log)
                else:
                    lock = locked(workdir / buckets.LOCK_FILE, does, patience=patience)
                stack.enter_context(lock)
        except OSError as error:
            refusal = error
        if hosts.any_of(refusal is not None):
            raise refusal or IsTakenError(f"the first host may not train in {workdir}")
        if not hosts.is_first():  # which has fetched them with the lock
            buckets.fetch_again(workdir)
        yield


def write_run(workdir: Path, sections: Sections, prepared: Prepared) -> None:
    """Writes what later verbs need; with several hosts the first writes, once all have agreed.

    Call `check_config` and `check_vocabulary` first.

    Raises:
      ValueError: another host does not see what the first has written.
    """
    hosts.wait("the config is that of the run")
    if hosts.is_first():
        write_json(workdir / "config.json", sections.values())
        if not (workdir / "vocabulary.model").exists():
            prepared.vocabulary.save(workdir / "vocabulary.model")
        write_classes(workdir, prepared.classes)
    hosts.wait("the config is written")
    if not buckets.is_copy(workdir) and hosts.any_of(not _appears(workdir / "config.json")):
        raise ValueError(
            f"{workdir} must be on a disk that all hosts share: some do not see the config.json "
            "that the first has written there"
        )


def _appears(path: Path) -> bool:
    """Whether a file exists, or soon does: network disks remember for a while that it did not."""
    give_up = time.monotonic() + _SECONDS_TO_APPEAR
    while not path.exists():
        if time.monotonic() > give_up:
            return False
        time.sleep(1.0)
    return True


def has_config(workdir: Path, sections: Sections) -> bool:
    """Whether `workdir` holds a run with exactly this config, wherever prepared data is kept."""
    path = workdir / "config.json"
    if not path.exists():
        return False
    before = completed(flat_dict(read_json(path)))
    now = flat_dict(json.loads(json.dumps(sections.values())))
    keys = (before.keys() | now.keys()) - {"data.cache"}
    return all(before.get(key) == now.get(key) for key in keys)


def steps_done(workdir: Path) -> int:
    """The steps of a finished training, by its own word; 0 if it has not finished."""
    path = workdir / "training.json"
    with contextlib.suppress(OSError, ValueError):  # not there, or damaged
        steps = read_json(path).get("steps")
        return steps if type(steps) is int else 0
    return 0


def write_classes(workdir: Path, classes: tuple[str, ...]) -> None:
    """Writes `classes.txt`, if there are classes."""
    if classes:
        names = "".join(f"{name}\n" for name in classes)
        write_bytes(workdir / "classes.txt", names.encode())


def read_classes(workdir: Path) -> tuple[str, ...]:
    """The names in `classes.txt`.

    Raises:
      ValueError: it is not there, or damaged.
    """
    path = workdir / "classes.txt"
    if not path.exists():
        raise ValueError(f"{workdir} has no {path.name}: t2t-jax train writes it for a classifier")
    # As bytes: a name may have another end of a line in it.
    *names, end = path.read_bytes().decode("utf-8", "replace").split("\n")
    if end or not names or len({*names}) < len(names) or "\ufffd" in "".join(names):
        raise ValueError(f"{path} is damaged: it must have a different name in each line, in UTF-8")
    return tuple(names)


def check_config(workdir: Path, sections: Sections) -> None:
    """Raises ValueError if `workdir` holds a run with another config; says which keys differ."""
    path = workdir / "config.json"
    if path.exists():
        check_same_run(workdir, flat_dict(read_json(path)), flat_dict(sections.values()))


def check_same_run(workdir: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises ValueError if two configs, dotted key -> value, are not of one run in `workdir`."""
    # As in JSON, which has no tuples.
    before, now = (completed(json.loads(json.dumps(each))) for each in (before, now))
    keys = {key for key in before.keys() | now.keys() if not may_change(key)}
    if now.get("training.schedule") not in SCHEDULES_WITH_AN_END:
        keys.discard("training.steps")
    if now.get("data.source") == before.get("data.source") == "text":
        weights = (_weights(config.get("data.mixture", "")) for config in (before, now))
        if len({*weights}) == 1:  # files may move: checkpoints know the text
            keys.discard("data.mixture")
    changed = [
        f"{key} was {before.get(key)!r}, now it is {now.get(key)!r}"
        for key in sorted(keys)
        if before.get(key) != now.get(key)
    ]
    if changed:
        raise ValueError(
            f"{workdir} holds a run with another config: {'; '.join(changed)}; "
            "use another --workdir, or the same config"
        )


def _weights(mixture: str) -> tuple[str, ...]:
    """How often each corpus is read, in their order."""
    return tuple(corpus.rpartition("=")[2].strip() for corpus in mixture.split(","))


def read_config(workdir: Path) -> ConfigDict:
    """The config of the run in `workdir`, which may be someone else's.

    Its `data.cache`, where a verb would write, is replaced by `own_cache()`. The place of its
    corpus is kept: that is only read, as text. Keys added after the run are filled in.

    Raises:
      NoRunError: there is none.
      ValueError: it is damaged.
    """
    values = with_later_keys(_read_config(workdir))
    for name in Sections._fields:
        if name != "seed" and not isinstance(values.get(name, {}), dict):
            raise ValueError(f"{workdir / 'config.json'} is not a config: {name} must have keys")
    if "data" in values:
        values["data"]["cache"] = own_cache()
    try:
        return ConfigDict(values).lock()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{workdir / 'config.json'} is not a config: {error}") from error


def cache_of(workdir: Path) -> str | None:
    """The `data.cache` that the run in `workdir` used.

    Raises:
      ValueError: there is no run, or its config is damaged.
    """
    return flat_dict(_read_config(workdir)).get("data.cache")


def _read_config(workdir: Path) -> dict[str, Any]:
    path = workdir / "config.json"
    if not path.exists():
        raise NoRunError(f"{workdir} holds no run: t2t-jax train writes {path.name} there")
    return read_json(path)


def checkpoint_steps(workdir: Path) -> list[int]:
    """The steps for which the run in `workdir` has checkpoints, in order."""
    return steps_in(buckets.checkpoints_of(workdir))


def load_trained(
    workdir: Path, sections: Sections | None = None, checkpoint: int | None = None
) -> Trained:
    """The model of `workdir`, averaged over its last checkpoints as `sections.decoding` says.

    `sections` default to those of the run; `checkpoint`, a step, is the last checkpoint to use.

    Raises:
      ValueError: there is no run or no such checkpoint, one is damaged or of another run, it does
        not fit the config or the vocabulary, or its training has diverged.
    """
    config = read_config(workdir)
    # With the run's own config: `sections` may differ.
    now = flat_dict(config.to_dict())
    sections = sections or read_sections(config)
    _check_same_model(workdir, now, sections.model)
    vocabulary = load_vocabulary(workdir / "vocabulary.model")
    classes = read_classes(workdir) if sections.data.task == "classification" else ()
    check_classes_fit(sections.model, classes)
    model = make_model(sections.model)
    devices = make_devices(**dataclasses.asdict(sections.devices))
    shapes = parameter_shapes(model)
    directory = buckets.checkpoints_of(workdir)
    if not directory.exists():
        there = steps_done(workdir)
        why = f"has trained {there:,} steps, but its checkpoints are gone: bring them back"
        raise ValueError(f"{workdir} {why if there else 'holds no checkpoint: train first'}")
    with Checkpoints(
        directory,
        identity=identity(vocabulary),
        check_config=partial(check_same_run, workdir, now=now),
    ) as checkpoints:
        params = checkpoints.restore_params(
            devices.replicated_shapes(shapes),
            average=sections.decoding.average_checkpoints,
            last=checkpoint,
        )
        step = checkpoints.steps[-1] if checkpoint is None else checkpoint
    check_params(params, f"the model in {workdir}")
    params = devices.put(params)
    return Trained(sections, vocabulary, model, params, devices, step, classes)


def _check_same_model(workdir: Path, trained: Mapping[str, Any], asked: TransformerConfig) -> None:
    """Raises ValueError if the parameters would be used in another model than was trained."""
    for name, value in dataclasses.asdict(asked).items():
        key = f"model.{name}"
        if is_of_the_model(key) and value != trained[key]:
            raise ValueError(
                f"{workdir} was trained with {key}={trained[key]!r}: with {value!r} its parameters "
                "are not the same model"
            )


def identity(vocabulary: Vocabulary, data_fingerprint: str | None = None) -> dict[str, str]:
    """The stamp of a checkpoint, which must match for it to be used.

    Continuing training needs the same data; using the model needs only the same vocabulary.
    """
    stamp = {"vocabulary_fingerprint": vocabulary.fingerprint}
    return stamp if data_fingerprint is None else stamp | {"data_fingerprint": data_fingerprint}
