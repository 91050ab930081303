"""The effect of a config's performance switches, in words and for records."""

import dataclasses
from typing import Any, NamedTuple

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.dropout import true_rate
from t2t_jax.model.fused_attention import fused_implementation, why_not_fused
from t2t_jax.runs.effect import unmet

_KERNELS = {
    "cudnn": "cuDNN's, except for rows of odd length that are packed, or alone on their device",
    "pallas": "a Pallas kernel, where a row fits on the chip, and einsum where it does not",
    "xla": "XLA's own, as there is neither a GPU nor a TPU",
}
RATES = ("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate")


class Switches(NamedTuple):
    """The switches of a model in training."""

    lines: list[str]  # for the log: what differs from the config
    facts: dict[str, Any]  # for the record of a run


def switches(config: TransformerConfig) -> Switches:
    """Which attention kernel this process uses, and the true dropout rates."""
    lines, kernel = [], "einsum"
    if config.attention_kernel == "fused" and config.family != "recurrent":
        if why := why_not_fused(config):
            lines.append(f"model.attention_kernel='fused' cannot be used: {why}; einsum is used")
        else:
            kernel = fused_implementation()
            lines.append(f"model.attention_kernel='fused': in training it is {_KERNELS[kernel]}")
    facts: dict[str, Any] = {"attention_kernel": kernel}
    values = {f"model.{name}": value for name, value in dataclasses.asdict(config).items()}
    for name in RATES:
        if unmet(f"model.{name}", values):
            continue
        rate, bits = getattr(config, name), config.dropout_bits
        if (true := true_rate(rate, bits)) != rate:
            lines.append(
                f"model.{name}={rate} is {true:.6g} with model.dropout_bits={bits}: the nearest "
                f"multiple of 1/{2**bits}"
            )
            facts[f"true_{name}"] = true
    return Switches(lines, facts)
