"""The sizes to measure: a config, changes to it, and the shape of a full batch."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_REPOSITORY = Path(__file__).parents[2]


class Size(NamedTuple):
    """A model and its batches."""

    config: str  # a file of configs/
    changes: Mapping[str, Any]  # dotted config key -> value
    shape: tuple[int, int]  # rows and tokens of a full batch, on each side
    steps_a_round: int  # timed: enough for a round of seconds

    @property
    def tokens(self) -> int:
        """Target tokens of a full batch."""
        return self.shape[0] * self.shape[1]

    def read_config(self) -> Any:
        """The config with the changes."""
        config = runpy.run_path(str(_REPOSITORY / self.config))["get_config"]()
        config.update_from_flattened_dict(dict(self.changes))
        return config

    def train_flags(self, directory: str) -> list[str]:
        """The flags of `t2t-jax train` to train it on text files, or else on the grammar's text."""
        source = {"data.source": "text", "data.directory": directory} if directory else _EMBEDDED
        changes = {**self.changes, **source}
        return [f"--config={self.config}", *(f"--config.{key}={changes[key]}" for key in changes)]


# The grammar has fewer words than the larger models have rows.
_EMBEDDED = {"data.source": "embedded", "data.vocabulary_size": 2_000}

SIZES = {
    "tiny": Size("configs/tiny.py", {}, (64, 16), steps_a_round=16),
    "small": Size(
        "configs/multi30k.py",
        {
            "data.vocabulary_size": 8_000,
            "data.max_length": 256,
            "data.batching": "bucketed",
            "data.source_tokens_per_batch": 4_096,
            "data.target_tokens_per_batch": 4_096,
            "model.vocabulary_rows": 8_000,
            "model.num_encoder_layers": 3,
            "model.num_decoder_layers": 3,
            "model.d_model": 256,
            "model.d_ff": 1024,
            "model.d_k": 64,
            "model.d_v": 64,
            "model.dropout_rate": 0.1,
            "training.log_every_steps": 10,
        },
        (256, 16),
        steps_a_round=4,
    ),
    # With batches that take two cores seconds.
    "base": Size(
        "configs/base.py",
        {
            "data.source_tokens_per_batch": 1_024,
            "data.target_tokens_per_batch": 1_024,
            "data.num_buckets": 4,
            "training.loss_chunk_tokens": 256,
            "training.log_every_steps": 4,
        },
        (32, 32),
        steps_a_round=2,
    ),
}
