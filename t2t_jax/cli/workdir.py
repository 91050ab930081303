"""What a run leaves in its directory, and how a verb takes it up again.

config.json  vocabulary.model  checkpoints/  metrics.jsonl  tensorboard/  training.json
translations/SPLIT.txt  scores/SPLIT.json
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree
from ml_collections import ConfigDict

from t2t_jax.cli.sections import Sections, read_sections
from t2t_jax.data.vocabulary import Vocabulary
from t2t_jax.devices import Devices, make_devices
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.checkpoint import Checkpoints

# Keys that may change when a run is taken up again: they do not change what has been learned.
_MAY_CHANGE = (
    "training.steps",
    "training.log_every_steps",
    "training.evaluate_every_steps",
    "training.checkpoint_every_steps",
    "training.keep_checkpoints",
    "training.patience",
    "data.directory",
    "data.cache",
    "decoding.",
    "evaluation.",
    "devices.",
)


class Trained(NamedTuple):
    """A trained model, ready to be used."""

    sections: Sections
    vocabulary: Vocabulary
    model: Transformer
    params: PyTree
    devices: Devices
    step: int  # of the last checkpoint


def write_config(workdir: Path, config: ConfigDict) -> None:
    """Writes `config.json`, or checks that what is there belongs to the same run.

    Raises:
      ValueError: the directory holds a run with another config; says which keys differ.
    """
    path = workdir / "config.json"
    if path.exists():
        before, now = _flat(read_config(workdir)), _flat(config)
        changed = [
            f"{key} was {before.get(key)!r}, now it is {now.get(key)!r}"
            for key in sorted(before.keys() | now.keys())
            if before.get(key) != now.get(key) and not key.startswith(_MAY_CHANGE)
        ]
        if changed:
            raise ValueError(
                f"{workdir} holds a run with another config: {'; '.join(changed)}. "
                "Use another --workdir, or the same config"
            )
    write_json(path, json.loads(config.to_json()))


def read_config(workdir: Path) -> ConfigDict:
    """The config of the run in `workdir`.

    Raises:
      ValueError: there is none.
    """
    path = workdir / "config.json"
    if not path.exists():
        raise ValueError(f"{workdir} holds no run: t2t-jax train writes {path.name} there")
    return ConfigDict(json.loads(path.read_text())).lock()


def load_trained(workdir: Path, config: ConfigDict) -> Trained:
    """The model of `workdir`, its last checkpoints averaged as `config.decoding` says.

    Raises:
      ValueError: there is no run, no checkpoint, or it does not fit the config or the vocabulary.
    """
    sections = read_sections(config)
    vocabulary = Vocabulary.load(workdir / "vocabulary.model")
    model = Transformer(sections.model)
    ids = jax.ShapeDtypeStruct((1, 1), jnp.int32)
    shapes = jax.eval_shape(
        lambda key, ids: model.init(key, ids, ids, deterministic=True), jax.random.key(0), ids
    )["params"]
    devices = make_devices(sections.devices.data)
    directory = workdir / "checkpoints"
    if not directory.exists():
        raise ValueError(f"{workdir} holds no checkpoint: train first")
    with Checkpoints(directory, identity=identity(vocabulary)) as checkpoints:
        average = sections.decoding.average_checkpoints
        params = checkpoints.restore_params(shapes, average=average)
        step = checkpoints.steps[-1]
    return Trained(sections, vocabulary, model, devices.put_replicated(params), devices, step)


def identity(vocabulary: Vocabulary) -> dict[str, str]:
    """What a checkpoint is stamped with."""
    return {"vocabulary_fingerprint": vocabulary.fingerprint}


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Writes the whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    os.replace(partial, path)


def _flat(config: ConfigDict) -> dict[str, Any]:
    flat = {}
    for name, value in config.items():
        if isinstance(value, ConfigDict):
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat
