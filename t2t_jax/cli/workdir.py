"""What a run leaves in its directory, and how a verb takes it up again.

config.json  vocabulary.model  checkpoints/  metrics.jsonl  tensorboard/  training.json
translations/SPLIT.txt  scores/SPLIT.json
"""

import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree
from ml_collections import ConfigDict

from t2t_jax.cli.sections import Sections, read_sections
from t2t_jax.data.vocabulary import Vocabulary
from t2t_jax.devices import Devices, make_devices
from t2t_jax.json_files import flat_dict, read_json, write_json
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.checkpoint import Checkpoints

# Keys that may change when a run is taken up again: they do not change what has been learned.
_MAY_CHANGE = (
    "training.log_every_steps",
    "training.evaluate_every_steps",
    "training.checkpoint_every_steps",
    "training.keep_checkpoints",
    "training.patience",
    "training.loss_chunk_tokens",
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


def check_vocabulary(workdir: Path, vocabulary: Vocabulary) -> None:
    """Raises ValueError if the run in `workdir` was trained with another vocabulary."""
    path = workdir / "vocabulary.model"
    if path.exists() and (before := Vocabulary.load(path).fingerprint) != vocabulary.fingerprint:
        raise ValueError(
            f"{workdir} was trained with the vocabulary {before}, but the corpus now gives "
            f"{vocabulary.fingerprint}: use another --workdir, or the corpus as it was"
        )


def write_config(workdir: Path, config: ConfigDict) -> None:
    """Writes `config.json`, or checks that what is there belongs to the same run.

    Raises:
      ValueError: the directory holds a run with another config; says which keys differ.
    """
    path = workdir / "config.json"
    values = json.loads(config.to_json())
    if path.exists():
        before, now = flat_dict(read_json(path)), flat_dict(values)
        may_change = _MAY_CHANGE
        if values["training"]["schedule"] != "linear":  # whose every rate depends on the last step
            may_change += ("training.steps",)
        changed = [
            f"{key} was {before.get(key)!r}, now it is {now.get(key)!r}"
            for key in sorted(before.keys() | now.keys())
            if before.get(key) != now.get(key) and not key.startswith(may_change)
        ]
        if changed:
            raise ValueError(
                f"{workdir} holds a run with another config: {'; '.join(changed)}. "
                "Use another --workdir, or the same config"
            )
    write_json(path, values)


def read_config(workdir: Path) -> ConfigDict:
    """The config of the run in `workdir`.

    Raises:
      ValueError: there is none.
    """
    path = workdir / "config.json"
    if not path.exists():
        raise ValueError(f"{workdir} holds no run: t2t-jax train writes {path.name} there")
    return ConfigDict(read_json(path)).lock()


def load_trained(workdir: Path, config: ConfigDict) -> Trained:
    """The model of `workdir`, its last checkpoints averaged as `config.decoding` says.

    Raises:
      ValueError: there is no run, no checkpoint, or it does not fit the config or the vocabulary.
    """
    sections = read_sections(config)
    vocabulary = Vocabulary.load(workdir / "vocabulary.model")
    model = Transformer(sections.model)
    devices = make_devices(sections.devices.data)
    ids = jax.ShapeDtypeStruct((1, 1), jnp.int32)
    shapes = jax.eval_shape(
        lambda key, ids: model.init(key, ids, ids, deterministic=True), jax.random.key(0), ids
    )["params"]
    directory = workdir / "checkpoints"
    if not directory.exists():
        raise ValueError(f"{workdir} holds no checkpoint: train first")
    with Checkpoints(directory, identity=identity(vocabulary)) as checkpoints:
        average = sections.decoding.average_checkpoints
        params = checkpoints.restore_params(devices.replicated_shapes(shapes), average=average)
        step = checkpoints.steps[-1]
    return Trained(sections, vocabulary, model, devices.put_replicated(params), devices, step)


def identity(vocabulary: Vocabulary) -> dict[str, str]:
    """What a checkpoint is stamped with."""
    return {"vocabulary_fingerprint": vocabulary.fingerprint}
