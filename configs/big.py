"""The big model of the paper on WMT14 English-German (paper section 6.1, last row of Table 3).

    t2t-jax train --config=configs/big.py --config.data.directory=DIR --workdir=W

The paper: 300,000 steps, 3.5 days on 8 P100; perplexity 4.33 and BLEU 26.4 on newstest2013.
Measured figures: docs/MEASURED.md.
"""

from typing import Any

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """The base config with the values of the row `big`."""
    config: Any = base.get_config()
    config.model.d_model = 1024
    config.model.d_ff = 4096
    config.model.num_heads = 16  # d_k = d_v = 64, unchanged
    config.model.dropout_rate = 0.3
    config.training.steps = 300_000  # updates
    return config
