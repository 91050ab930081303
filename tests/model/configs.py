"""A model small enough to test, with sizes that all differ, and parameters for it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.transformer import Transformer

SMALL = TransformerConfig(
    family="encoder_decoder",
    vocabulary_rows=11,
    num_encoder_layers=1,
    num_decoder_layers=2,
    d_model=12,
    d_ff=20,
    num_heads=4,
    d_k=5,
    d_v=3,
    num_self_attentions=1,
    positions="sinusoidal",
    first_position=0,
    relative_buckets=8,
    relative_max_distance=20,
    max_positions=16,
    norm="post",
    norm_epsilon=1e-6,
    activation="relu",
    attention_init="separate",
    attention_biases=True,
    feed_forward_biases=True,
    tied_embeddings="all",
    embedding_init="inverse_sqrt_d_model",
    scale_embeddings=True,
    embedding_norm=False,
    scale_logits=False,
    output_bias=False,
    pooling="none",
    pooler_activation="tanh",
    num_classes=3,
    recurrent_cell="lstm",
    recurrent_attention=True,
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
