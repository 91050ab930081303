"""Trains and scores as one of two hosts."""

import json
import sys
from pathlib import Path

from ml_collections import ConfigDict

from t2t_jax import hosts
from t2t_jax.cli.score import score
from t2t_jax.cli.train import train


def main(process_id: str, port: str, workdir: str, config: str) -> None:
    hosts.join(f"localhost:{port}", 2, int(process_id))
    train(ConfigDict(json.loads(config)).lock(), Path(workdir))
    score(Path(workdir), "test")


if __name__ == "__main__":
    main(*sys.argv[1:])
