"""Converts tensors of PyTorch layers to our parameters.

A `torch.nn.Linear` stores its matrix transposed, and has one axis for all heads where ours has an
axis of heads. Axes: D d_model, H heads, K width of a head, F d_ff.
"""

from collections.abc import Mapping
from typing import Any

from t2t_jax.interop.weight_files import Weights

Params = dict[str, Any]  # name -> array, or the parameters of a part


def linear(weights: Weights, name: str, num_in: int, num_out: int) -> Params:
    """A linear map with a bias."""
    return {
        "kernel": weights.take(f"{name}.weight", (num_out, num_in)).T,
        "bias": weights.take(f"{name}.bias", (num_out,)),
    }


def layer_norm(weights: Weights, name: str, d_model: int) -> Params:
    """A layer norm; they call its scale weight."""
    return {
        "scale": weights.take(f"{name}.weight", (d_model,)),
        "bias": weights.take(f"{name}.bias", (d_model,)),
    }


def attention(weights: Weights, names: Mapping[str, str], d_model: int, num_heads: int) -> Params:
    """Multi-head attention; `names` are for query, key, value and output."""
    maps = {part: linear(weights, name, d_model, d_model) for part, name in names.items()}
    return attention_of_maps(maps, d_model, num_heads)


def attention_of_maps(maps: Mapping[str, Params], d_model: int, num_heads: int) -> Params:
    """Query, key, value and output over all heads, split into heads."""
    heads = (num_heads, d_model // num_heads)
    into_heads = {
        part: {
            "kernel": maps[part]["kernel"].reshape(d_model, *heads),
            "bias": maps[part]["bias"].reshape(heads),
        }
        for part in ("query", "key", "value")
    }
    output = {
        "kernel": maps["output"]["kernel"].reshape(*heads, d_model),
        "bias": maps["output"]["bias"],
    }
    return {**into_heads, "output": output}


def layer(
    self_attention: Params,
    self_attention_norm: Params,
    inner: Params,
    outer: Params,
    feed_forward_norm: Params,
    cross_attention: Params | None = None,
    cross_attention_norm: Params | None = None,
) -> Params:
    """One of our layers, from its parts."""
    cross = {}
    if cross_attention is not None:
        cross = {
            "cross_attention": cross_attention,
            "cross_attention_residual": {"norm": cross_attention_norm},
        }
    return {
        "self_attentions_0": self_attention,
        "self_attention_residuals_0": {"norm": self_attention_norm},
        **cross,
        "feed_forward": {"inner": inner, "outer": outer},
        "feed_forward_residual": {"norm": feed_forward_norm},
    }


def numbered(layers: list[Params]) -> Params:
    """The layers of a stack under the names it gives them."""
    return {f"layers_{number}": layer for number, layer in enumerate(layers)}
