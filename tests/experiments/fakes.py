"""Sweeps that look finished without any training."""

import json
import math
from pathlib import Path

from ml_collections import ConfigDict

from experiments.run import record
from experiments.tables.ablation import Table
from t2t_jax.evaluation.bleu import bleu_of, sentence_statistics
from t2t_jax.evaluation.bleu_by_length import bleu_by_length, num_words

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"

DATA = "d0"

_SOURCES = [
    f"the {one} sees {' '.join(['the small'] * words)} {other}"
    for words in (1, 2, 4, 6)
    for one in ("dog", "cat", "man", "girl", "bird")
    for other in ("tree", "house", "lake", "road", "garden")
]


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
        "data_fingerprint": DATA,
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


def write_translations(directory: Path, *, wrong_every: int, split: str = "test") -> None:
    """Scores of a split, as if one in `wrong_every` translations had a wrong word."""
    lines = [
        source.replace("sees", "hears") if place % wrong_every == 0 else source
        for place, source in enumerate(_SOURCES)
    ]
    statistics, words = sentence_statistics(lines, _SOURCES), num_words(_SOURCES)
    record.write_json(
        directory / "scores" / f"{split}.sentences.json",
        {
            "bleu_signature": SIGNATURE,
            "source_words": words,
            "statistics": statistics.tolist(),
        },
    )
    values = record.read_json(directory / record.RECORD_FILE)
    values["scores"].setdefault(split, {}).update(
        bleu=bleu_of(statistics.sum(0)),
        bleu_by_length=[score._asdict() for score in bleu_by_length(statistics, words)],
    )
    record.write_json(directory / record.RECORD_FILE, values)
