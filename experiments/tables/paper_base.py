"""What a base must share with the paper's for the paper's columns to appear beside ours."""

import runpy
from pathlib import Path
from typing import Any

from experiments.tables.ablation import flat

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def config_file(name: str) -> dict[str, Any]:
    """Dotted key -> value of configs/NAME.py."""
    return flat(runpy.run_path(str(CONFIGS / f"{name}.py"))["get_config"]())


# Keys that an encoder-decoder with the paper's positions does not read.
OF_OTHER_MODELS = frozenset(
    {
        *("model.relative_buckets", "model.relative_max_distance"),
        *("model.pooling", "model.pooler_activation", "model.num_classes"),
        *("model.recurrent_cell", "model.recurrent_attention"),
    }
)

# Model keys about which the paper says nothing.
_UNSAID = frozenset(
    {
        *("model.attention_init", "model.embedding_init", "model.norm_epsilon"),
        *("model.max_positions", "model.vocabulary_rows", "model.dtype", "model.rematerialise"),
        *("model.dropout_bits", "model.attention_kernel", "model.fused_projections"),
        "model.scan_layers",
    }
)

_SAID = {
    "data.task": "translation",
    "data.source_language": "en",
    "data.target_language": "de",
    "model.family": "encoder_decoder",
    "model.ensemble_size": 1,
    "model.num_encoder_layers": 6,
    "model.num_decoder_layers": 6,
    "model.d_model": 512,
    "model.d_ff": 2048,
    "model.num_heads": 8,
    "model.d_k": 64,
    "model.d_v": 64,
    "model.score_divisor": "sqrt_d_k",
    "model.num_self_attentions": 1,
    "model.feed_forward": True,
    "model.residual": True,
    "model.positions": "sinusoidal",
    "model.first_position": 0,
    "model.norm": "post",
    "model.norm_kind": "layer",
    "model.activation": "relu",
    "model.attention_biases": True,
    "model.feed_forward_biases": True,
    "model.tied_embeddings": "all",
    "model.scale_embeddings": True,
    "model.embedding_norm": False,
    "model.scale_logits": False,
    "model.output_bias": False,
    "model.dropout_rate": 0.1,
    "model.attention_dropout_rate": 0.0,
    "model.feed_forward_dropout_rate": 0.0,
    "training.label_smoothing": 0.1,
}

# Any other model key is a feature that the paper lacks; configs/base.py turns it off.
PAPER_BASE = {
    key: value
    for key, value in config_file("base").items()
    if key.startswith("model.") and key not in OF_OTHER_MODELS | _UNSAID
} | _SAID
