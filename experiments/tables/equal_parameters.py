"""Sizes that give another model as many parameters as the base, without building either.

Biases and layer norms are not counted: they are less than one in a hundred.
"""

from typing import NamedTuple

from experiments.tables.ablation import AnyConfig


class Depth(NamedTuple):
    """Layers of an encoder-decoder, and self-attentions in each."""

    encoder: int
    decoder: int
    self_attentions: int


def depth_of(base: AnyConfig) -> Depth:
    """The base's own depth."""
    model = base.model
    return Depth(model.num_encoder_layers, model.num_decoder_layers, model.num_self_attentions)


def d_ff_for(base: AnyConfig, depth: Depth) -> int:
    """The feed-forward width that gives `depth` the base's parameters; below 1 if impossible."""
    own = depth_of(base)
    feed_forward = base.model.d_ff * (own.encoder + own.decoder)
    # A feed-forward unit has 2 d_model weights.
    saved = _num_attentions(own) - _num_attentions(depth)
    units = feed_forward + saved * _attention_weights(base) / (2 * base.model.d_model)
    return round(units / (depth.encoder + depth.decoder))


def layer_weights(base: AnyConfig, depth: Depth) -> int:
    """Weights in all layers of `depth` at the base's widths."""
    feed_forward = 2 * base.model.d_model * base.model.d_ff if base.model.feed_forward else 0
    return (
        _num_attentions(depth) * _attention_weights(base)
        + (depth.encoder + depth.decoder) * feed_forward
    )


def recurrent_d_model(base: AnyConfig, cell: str, attends: bool) -> int:
    """The even width of the recurrent model with the base's parameters."""
    model = base.model
    encoder, decoder = model.num_encoder_layers, model.num_decoder_layers
    num_gates = {"tanh": 1, "gru": 3, "lstm": 4}[cell]
    # In units of d_model^2. The encoder has two directions of half the width.
    cells = num_gates * (3 / 2 * encoder + 2 * decoder)
    first_states = decoder * (2 if cell == "lstm" else 1)
    squares = cells + first_states + (3 if attends else 0)
    rows = _num_rows(base)
    # squares d^2 + rows d = weights
    width = (-rows + (rows**2 + 4 * squares * weights(base)) ** 0.5) / (2 * squares)
    return 2 * round(width / 2)


def weights(base: AnyConfig) -> int:
    """Weights of the base: an encoder-decoder, one model."""
    places = 2 * base.model.max_positions if base.model.positions == "learned" else 0
    return (_num_rows(base) + places) * base.model.d_model + layer_weights(base, depth_of(base))


def _num_rows(base: AnyConfig) -> int:
    """Rows of all its tables of pieces."""
    tables = {"all": 1, "decoder": 2, "none": 3}[base.model.tied_embeddings]
    return tables * base.model.vocabulary_rows


def _num_attentions(depth: Depth) -> int:
    return depth.self_attentions * (depth.encoder + depth.decoder) + depth.decoder


def _attention_weights(base: AnyConfig) -> int:
    model = base.model
    return 2 * model.d_model * model.num_heads * (model.d_k + model.d_v)
