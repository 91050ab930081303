"""From a config to its model, and facts about a model before it is created."""

import dataclasses
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from t2t_jax.made_once import made_once
from t2t_jax.model.classifier import Classifier
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.ensemble import Ensemble
from t2t_jax.model.interface import Inputs, Model
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.model.masked_language_model import MaskedLanguageModel
from t2t_jax.model.recurrent import RecurrentTranslator
from t2t_jax.model.transformer import Transformer


def make_model(config: TransformerConfig) -> Model:
    """The module of the config's family, or an ensemble of such."""
    if config.ensemble_size > 1:
        members: Any = (make_model(_of_member(config)) for _ in range(config.ensemble_size))
        return Ensemble(config, tuple(members))
    match config.family:
        case "encoder_decoder":
            return Transformer(config)
        case "decoder_only":
            return LanguageModel(config)
        case "encoder_only":
            return MaskedLanguageModel(config) if config.pooling == "none" else Classifier(config)
        case "recurrent":
            return RecurrentTranslator(config)


def _of_member(config: TransformerConfig) -> TransformerConfig:
    return dataclasses.replace(config, ensemble_size=1)


def initial_params(model: Model, key: Key[Array, ""]) -> PyTree[Array]:
    """Parameters drawn at random."""
    ids = jnp.zeros((1, 1), jnp.int32)
    inputs = Inputs(ids, ids)
    return model.init(key, inputs, deterministic=True, method=model.features)["params"]


def parameter_shapes(model: Model) -> PyTree[jax.ShapeDtypeStruct]:
    """Shapes and types of the parameters, without creating any."""
    return jax.eval_shape(_initialised(model), 0)


@made_once
def _initialised(model: Model) -> Callable[[int], PyTree[Array]]:
    return jax.jit(lambda seed: initial_params(model, jax.random.key(seed)))


def num_parameters(config: TransformerConfig) -> int:
    """How many parameters a model of this config has."""
    if config.ensemble_size > 1:
        return config.ensemble_size * num_parameters(_of_member(config))
    depths = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
    # What has no parameters is left out, and all layers of a stack have the same size.
    alike = dataclasses.replace(config, dropout_rate=0.0)
    if config.family != "recurrent":
        depths_to_count = {f"num_{stack}_layers": min(depths[stack], 1) for stack in depths}
        alike = dataclasses.replace(alike, **depths_to_count)
    return sum(
        size * (depths[stack] if part == "layers_0" else 1) for (stack, part), size in _sizes(alike)
    )


@cache
def _sizes(config: TransformerConfig) -> list[tuple[tuple[str, str], int]]:
    """The number of parameters of each leaf, with the first two parts of its path; cached."""
    shapes = parameter_shapes(make_model(config))
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    return [((path[0].key, path[1].key), math.prod(leaf.shape)) for path, leaf in leaves]
