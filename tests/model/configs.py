"""A model small enough to test, with distinct sizes, and its parameters."""

import dataclasses
from functools import cache, partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from configs import base
from t2t_jax.model.config import Positions, TransformerConfig
from t2t_jax.model.embedding import table_logits
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.model.interface import Inputs, Model

SMALL = dataclasses.replace(
    TransformerConfig(**base.get_config().model),
    vocabulary_rows=11,
    num_encoder_layers=1,
    num_decoder_layers=2,
    d_model=12,
    d_ff=20,
    num_heads=4,
    d_k=5,
    d_v=3,
    relative_buckets=8,
    relative_max_distance=20,
    max_positions=16,
    attention_init="separate",
    num_classes=3,
    dropout_rate=0.0,
)

# Every kind of positions, each with what it asks of the other keys.
_ASKED = {"sinusoidal_concatenated": {"first_position": 1}, "rotary": {"d_k": 6}}
POSITIONS = {kind: _ASKED.get(kind, {}) for kind in get_args(Positions)}
POSITION_CHANGES = [{"positions": kind, **changes} for kind, changes in POSITIONS.items()]


def small(**changes) -> TransformerConfig:
    """SMALL with `changes`."""
    return dataclasses.replace(SMALL, **changes)


def model_and_variables(**changes):
    """The model of SMALL with `changes`, and random variables for it."""
    model = make_model(small(**changes))
    return model, random_variables(model)


_parameter_shapes = cache(parameter_shapes)  # a model is asked for by many tests


def random_variables(model: nn.Module, seed: int = 0):
    """Variables for `model.apply`, all of them random, biases and scales too.

    Drawn with numpy: compiling the real initialisation would take most of a test's time.
    """
    rng = np.random.default_rng(seed)

    def draw(shape):
        return jnp.asarray(rng.normal(scale=0.4, size=shape.shape), shape.dtype)

    return {"params": jax.tree.map(draw, _parameter_shapes(model))}


@partial(jax.jit, static_argnames=("model", "method", "deterministic"))
def run(model: nn.Module, variables, *arguments, method=None, deterministic=True, **options):
    """`model.apply`, compiled as one program: called as it is, every operation is one of its own.

    Tests of one model share it. For a `method` that knows no `deterministic`, say None.
    """
    if deterministic is not None:
        options["deterministic"] = deterministic
    return model.apply(variables, *arguments, method=method, **options)


def logits_of(model: Model, variables, source_ids, target_inputs, packings=None):
    """The logits that training is given: of any family, and of packed rows."""
    inputs = Inputs(source_ids, target_inputs, packings)
    return table_logits(*model.bind(variables).features(inputs, deterministic=True))


def some_ids(rows: int, length: int, seed: int = 0):
    """Ids of pieces: neither padding nor the other reserved ones."""
    return jnp.asarray(np.random.default_rng(seed).integers(4, 11, (rows, length)), jnp.int32)
