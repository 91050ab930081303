"""Sweeps that look finished without any training."""

import json
import math
from pathlib import Path

from ml_collections import ConfigDict

from experiments import record
from experiments.ablation import Table

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"


def write_record(
    workdir: Path,
    table: Table,
    base: ConfigDict,
    row: str,
    seed: int,
    *,
    perplexity: float,
    bleu: float,
    **facts,
) -> Path:
    """A finished run with its record and its learning curve; `facts` replace the record's."""
    run = record.make_run(table, table.rows(base).named(row), base, seed)
    directory = workdir / run.directory
    record.write_run(directory, run)
    values = {
        "format": 1,
        **run._asdict(),
        "commit": "0123abc",
        "direction": "en-de",
        "data_fingerprint": "d0",
        "vocabulary_fingerprint": "v0",
        "params": 1_250_000,
        "scores": {
            "dev": {"perplexity": perplexity, "tokens": 1000},
            "test": {"perplexity": perplexity, "bleu": bleu, "bleu_signature": SIGNATURE},
        },
        "steps": 300,
        "target_tokens": 2_000_000,
        "seconds": {"train": 60.0, "score": 4.0},
        "hardware": "a test",
        "versions": {},
    }
    record.write_json(directory / record.RECORD_FILE, values | facts)
    lines = [
        json.dumps({"step": step, "split": split, "perplexity": perplexity + 9 * math.exp(-step)})
        for step in (1, 2, 3)
        for split in ("train", "dev")
    ]
    (directory / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 4, "sp')
    return directory
