"""A config to its model, and what can be known of a model before it is made."""

import math
from functools import cache

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import PyTree

from t2t_jax.model.classifier import Classifier
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.model.masked_language_model import MaskedLanguageModel
from t2t_jax.model.recurrent import RecurrentTranslator
from t2t_jax.model.transformer import Transformer


def make_model(config: TransformerConfig) -> nn.Module:
    """The module of the config's family; every one has `features`, which training uses."""
    match config.family:
        case "encoder_decoder":
            return Transformer(config)
        case "decoder_only":
            return LanguageModel(config)
        case "encoder_only":
            make = MaskedLanguageModel if config.pooling == "none" else Classifier
            return make(config)
        case "recurrent":
            return RecurrentTranslator(config)


def parameter_shapes(model: nn.Module) -> PyTree[jax.ShapeDtypeStruct]:
    """Shapes and types of the parameters; none are made to find out."""

    def init(ids):
        return model.init(jax.random.key(0), ids, ids, deterministic=True, method=model.features)

    return jax.eval_shape(init, jax.ShapeDtypeStruct((1, 2), jnp.int32))["params"]


@cache
def num_parameters(config: TransformerConfig) -> int:
    """How many numbers a model of this config learns; known sooner when asked again."""
    shapes = parameter_shapes(make_model(config))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
