"""Sweeps that look finished without any training, and a run that only pretends to train."""

import json
import math
import sys
from pathlib import Path

from ml_collections import ConfigDict

from experiments import record
from experiments.ablation import Table
from t2t_jax.evaluation.bleu import bleu_of, sentence_statistics
from t2t_jax.evaluation.bleu_by_length import bleu_by_length, num_words

_RUN = """
import json, os, pathlib, sys, time
directory = pathlib.Path(sys.argv[1])
run = json.loads((directory / "run.json").read_text())
(directory / "environment").write_text(json.dumps(dict(os.environ)))
with open(directory / "times_run", "a") as file:
    file.write("x")
if run["row"] == "one_head":
    (directory / "failure.json").write_text(json.dumps({"error": "ValueError: no such thing"}))
    sys.exit(1)
if run["row"] == "one_layer":
    os.kill(os.getpid(), 9)
if run["row"] == "learned_positions" and "fussy" in str(directory):
    sys.exit("the disk is full")
if run["row"] == "no_positions":
    (directory / "pid").write_text(str(os.getpid()))
    time.sleep(60)
scores = {"dev": {"perplexity": 1.234}, "test": {"bleu": 91.26}}
(directory / "record.json").write_text(json.dumps({"scores": scores}))
"""

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"

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


def write_translations(directory: Path, *, wrong_every: int, split: str = "test") -> None:
    """Scores of a split, as of translations of which every so manieth has a wrong word."""
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


def run_command(directory: Path) -> tuple[str, ...]:
    """The command of a run whose row says what becomes of it, written to `directory`."""
    script = directory / "pretend_to_run.py"
    script.write_text(_RUN)
    return sys.executable, str(script)
