"""A model small enough to test, with sizes that all differ, and parameters for it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.transformer import Transformer

SMALL = TransformerConfig(
    vocabulary_rows=11,
    num_encoder_layers=1,
    num_decoder_layers=2,
    d_model=12,
    d_ff=20,
    num_heads=4,
    d_k=5,
    d_v=3,
    positions="sinusoidal",
    max_positions=16,
    norm="post",
    norm_epsilon=1e-6,
    activation="relu",
    attention_biases=True,
    feed_forward_biases=True,
    tied_embeddings="all",
    scale_embeddings=True,
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    feed_forward_dropout_rate=0.0,
    dtype="float32",
)


def small(**changes) -> TransformerConfig:
    """SMALL with `changes`."""
    return dataclasses.replace(SMALL, **changes)


def random_variables(model: Transformer, seed: int = 0):
    """Variables for `model.apply`, all of them random, biases and scales too.

    Drawn with numpy: compiling the real initialisation would take most of a test's time.
    """
    ids = jax.ShapeDtypeStruct((1, 2), jnp.int32)
    shapes = jax.eval_shape(
        lambda ids: model.init(jax.random.key(0), ids, ids, deterministic=True), ids
    )
    rng = np.random.default_rng(seed)

    def draw(shape):
        return jnp.asarray(rng.normal(scale=0.4, size=shape.shape), shape.dtype)

    return jax.tree.map(draw, shapes)
