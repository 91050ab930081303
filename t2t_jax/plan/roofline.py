"""How long a step takes: a range, from operations and bytes moved against published peaks.

At best, products, memory and network overlap fully; at worst, they run one after the other. Which
share of the peaks these programs reach has not been measured on a TPU; docs/PLAN.md has it for one
GPU. A finished record on real hardware replaces the range, see `calibration`.
"""

import math
from typing import NamedTuple

from t2t_jax.data.batches.assembling import BatchShape
from t2t_jax.devices import MatmulPrecision
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.fused_attention import is_fused
from t2t_jax.plan.hardware import Chip, Topology

# Shares of the published peak, at best and at worst. Large products alone reach 70-80 %. The
# compiler also counts bytes that stay on the chip, so that memory may exceed its peak.
_OF_OPERATIONS = 0.75, 0.45
_OF_MEMORY = 1.2, 0.7
_OF_LINKS = 0.9, 0.6
# Passes of bfloat16 for a product of float32 on a TPU.
_PASSES: dict[MatmulPrecision, int] = {"highest": 6, "high": 3, "default": 1}
# Bytes that each chip sends on a ring, per byte of the whole array.
_SENT = {"all-reduce": 2.0}


class Range(NamedTuple):
    """From the lowest to the highest."""

    low: float
    high: float

    def times(self, factor: int | float) -> "Range":
        """Both ends times `factor`."""
        return Range(self.low * factor, self.high * factor)

    def plus(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    @property
    def middle(self) -> float:
        """The geometric mean: the same factor away from both ends."""
        return math.sqrt(self.low * self.high)


class Work(NamedTuple):
    """The work of one chip in a step."""

    operations: float
    accessed_bytes: float
    sent_bytes: float  # over the links


def seconds(work: Work, topology: Topology, rate: float) -> Range:
    """The seconds of a step; `rate` is the chip's peak in operations per second, see `peak`."""
    parts = (
        (work.operations / rate, _OF_OPERATIONS),
        (work.accessed_bytes / topology.chip.bandwidth, _OF_MEMORY),
        (work.sent_bytes / topology.link_bandwidth, _OF_LINKS),
    )
    return Range(
        max(at_peak / best for at_peak, (best, _) in parts),
        sum(at_peak / worst for at_peak, (_, worst) in parts),
    )


def peak(chip: Chip, dtype: str, precision: MatmulPrecision) -> float:
    """Operations per second of products in this type."""
    if dtype == "bfloat16":
        return chip.operations
    if chip.float32:
        return chip.float32 if precision == "highest" else chip.operations / 2  # TF32
    return chip.operations / _PASSES[precision]


def sent_bytes(moved: dict[str, int], num_chips: int) -> float:
    """Bytes that each chip sends for collectives over all chips; `moved` is from `traffic`."""
    share = (num_chips - 1) / num_chips
    return share * sum(_SENT.get(kind, 1.0) * size for kind, size in moved.items())


def estimated_bytes(
    config: TransformerConfig,
    shape: BatchShape,
    num_params: int,
    num_chips: int,
    *,
    as_einsum: bool = False,
) -> float:
    """A rough estimate of the bytes that one chip reads and writes in a step, without a compiler.

    Adam's pass over the parameters; some twenty passes over each sub-layer's output, six over what
    is hidden in it, ten over each matrix of attention weights and five over the logits, forward and
    backward together. If `as_einsum`, weights count even for a model that never writes them.
    """
    rows, source, target = shape
    size = 2 if config.dtype == "bfloat16" else 4
    encoder = config.family != "decoder_only" and config.num_encoder_layers * source
    decoder = config.family != "encoder_only" and config.num_decoder_layers * target
    has_both = config.family in ("encoder_decoder", "recurrent")
    of_itself, width = config.num_self_attentions, config.feed_forward * config.d_ff
    if config.family == "recurrent":  # its gates
        of_itself, width = 1, 4 * config.d_model
    sub_layers = of_itself + (width > 0)
    outputs = encoder * sub_layers + decoder * (sub_layers + has_both)
    outputs *= rows * (20 * config.d_model) * size
    hidden = rows * (encoder + decoder) * (6 * width) * size
    looks = encoder * of_itself * source + decoder * (of_itself * target + has_both * source)
    weights = rows * config.num_heads * looks * 10 * size  # a compiled bfloat16 step had 19 bytes
    if not as_einsum and (config.family == "recurrent" or is_fused(config)):
        weights = 0
    has_classes = config.family == "encoder_only" and config.pooling != "none"
    logits = rows * target * (config.num_classes if has_classes else config.vocabulary_rows) * 22
    of_members = config.ensemble_size * (outputs + hidden + weights + logits)
    return 28 * num_params + of_members / num_chips
