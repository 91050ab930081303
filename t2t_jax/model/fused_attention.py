"""Attention as one kernel, in training: the weights never reach device memory.

Axes: B batch, T query positions, S key positions, H heads, K d_k.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from t2t_jax.model.config import BIASED_POSITIONS, TransformerConfig
from t2t_jax.model.tpu_attention import attend_by_row

Implementation = Literal["cudnn", "pallas", "xla"]

_WIDEST_FUSED, _WIDEST_BEFORE_HOPPER = 256, 128  # heads in cuDNN


def fused_attention(
    query: Float[Array, "B H T K"],
    key: Float[Array, "B H S K"],
    value: Float[Array, "B H S K"],
    mask: Bool[Array, "#B #T S"],
    divisor: float,
    implementation: Implementation,
) -> Float[Array, "B H T K"]:
    """Equation 1 as a kernel that stores no weights: cuDNN's or, compiled for a TPU, ours."""
    attend: Any = _by_cudnn if implementation == "cudnn" else attend_by_row
    heads_last = (x.transpose(0, 2, 1, 3) for x in (query, key, value))
    return attend(*heads_last, mask, divisor).transpose(0, 2, 1, 3)


def _by_cudnn(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H K"],
    mask: Bool[Array, "#B #T S"],
    divisor: float,
) -> Float[Array, "B T H K"]:
    """Equation 1 by cuDNN, which need not read a mask of known meaning and then takes any length.

    By the conventions of masks.py, a mask equal for all queries shows the first keys of a row, and
    one equal for several rows is causal. Any other is added to the scores.
    """
    seen: dict[str, Any] = {"mask": mask[:, None]}
    if _is_of_keys(mask):
        # A row of only padding attends to its first key: there is no mean of no keys.
        lengths = jnp.maximum(mask.sum(-1, dtype=jnp.int32)[:, 0], 1)
        seen = {"key_value_seq_lengths": jnp.broadcast_to(lengths, (len(query),))}
    elif _is_causal(mask, len(query)):
        seen = {"is_causal": True}
    return jax.nn.dot_product_attention(
        query, key, value, **seen, scale=1 / divisor, implementation="cudnn"
    )


def _is_of_keys(mask: Bool[Array, "#B #T S"]) -> bool:
    return mask.shape[1] == 1


def _is_causal(mask: Bool[Array, "#B #T S"], num_rows: int) -> bool:
    # The mask of a single row may be that of what is packed into it.
    return len(mask) == 1 < num_rows and mask.shape[1] == mask.shape[2]


def is_too_odd_to_fuse(mask: Bool[Array, "#B #T S"], num_rows: int) -> bool:
    """Whether a mask must be added to the scores, and has an odd number of positions."""
    is_added = not _is_of_keys(mask) and not _is_causal(mask, num_rows)
    return is_added and any(length % 2 for length in mask.shape[1:])


def fused_implementation() -> Implementation:
    """How this process computes `fused_attention`."""
    backends: dict[str, Implementation] = {"gpu": "cudnn", "tpu": "pallas"}
    return backends.get(jax.default_backend(), "xla")


def asks_for_a_kernel(config: TransformerConfig) -> bool:
    """Whether a model asks for a kernel that some device has for it."""
    is_asked = config.attention_kernel == "fused" and config.family != "recurrent"
    return is_asked and not _why_nowhere(config)


def is_fused(config: TransformerConfig) -> bool:
    """Whether a Transformer uses `fused_attention` in this process."""
    return config.attention_kernel == "fused" and not why_not_fused(config)


def why_not_fused(config: TransformerConfig) -> str:
    """Why a model cannot use `fused_attention` here, by the limits of cuDNN; "" if it can."""
    if why := _why_nowhere(config):
        return why
    if config.d_k > (widest := _widest_fused()):
        return f"model.d_k={config.d_k} is above {widest}"
    return ""


def _why_nowhere(config: TransformerConfig) -> str:
    """Why no device can; "" if some can."""
    if config.dtype != "bfloat16":
        return f"model.dtype={config.dtype!r} is not 'bfloat16'"
    if config.d_k != config.d_v:
        return f"model.d_k={config.d_k} is not model.d_v={config.d_v}"
    if config.d_k > _WIDEST_FUSED or config.d_k % 8:
        return f"model.d_k={config.d_k} must be a multiple of 8, at most {_WIDEST_FUSED}"
    if config.positions in BIASED_POSITIONS:
        return f"model.positions={config.positions!r} adds to the scores"
    if config.attention_dropout_rate > 0:
        return f"model.attention_dropout_rate={config.attention_dropout_rate} is above 0"
    return ""


def _widest_fused() -> int:
    """The widest heads that this process can fuse; JAX raises for wider ones."""
    if fused_implementation() != "cudnn":
        return _WIDEST_FUSED
    major, *_ = jax.local_devices()[0].compute_capability.split(".")
    return _WIDEST_FUSED if int(major) >= 9 else _WIDEST_BEFORE_HOPPER
