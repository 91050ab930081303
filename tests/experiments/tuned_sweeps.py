"""A table to be tuned, and a launcher whose runs get their scores from a formula."""

import math
from collections.abc import Generator, Sequence
from pathlib import Path

from configs import tiny
from experiments.launchers.event import Event
from experiments.run import record
from experiments.sweep import prepared_runs
from experiments.tables import tuning
from experiments.tables.ablation import Row, Table
from tests.experiments.fakes import DATA, SIGNATURE

RATE = "training.peak_learning_rate"
WORDS = (f"{RATE}=log(2e-4,8e-3)",)
CONFIG = tiny.get_config()
# Ten times too high is a row by its keep_checkpoints, which no score depends on, as a twin is.
TABLE = Table(
    "planted",
    "Planted",
    lambda base: [
        Row("base", {}),
        Row("too_high", {RATE: 0.03, "training.keep_checkpoints": 3}),
        Row("twin", {"training.keep_checkpoints": 4}),
        Row("worse", {"model.num_heads": 1, "model.d_k": 128, "model.d_v": 128}),
    ],
)
# Below which rate a row is best, and by how much better or worse than base it is then.
BEST_RATE = 1.3e-3
WORSE = 0.4
DIVERGES_ABOVE = 0.02


def space(words: Sequence[str] = WORDS, trials: int | None = 5) -> tuning.Space:
    """What is tuned."""
    return tuning.space(words, trials, CONFIG)


def prepared(
    workdir: Path, patterns: str = "*", num_seeds: int = 3, found: tuning.Space | None = None
) -> list[Path]:
    """The directories of a tuned sweep, fixed runs, trials and runs that wait for these."""
    rows = TABLE.rows(CONFIG).select(patterns)
    return prepared_runs.prepare(TABLE, rows, CONFIG, num_seeds, workdir, space=found or space())


def launch(directories: Sequence[Path]) -> Generator[Event, None, None]:
    """Leaves a record in each."""
    for directory in directories:
        yield Event(directory, "started", 0.0)
        write_record(directory)
        yield Event(directory, "finished", 1.0)


def swept(workdir: Path, *arguments, **options) -> Path:
    """A whole sweep."""
    assert prepared_runs.do_unfinished(prepared(workdir, *arguments, **options), launch) == 0
    return workdir


def write_record(directory: Path) -> None:
    """What the formula says of a run: a parabola in the logarithm of the rate, and its seed."""
    run = record.read_run(directory)
    rate, seed = run.config["training"]["peak_learning_rate"], run.seed % 97
    loss = 0.5 + 0.3 * math.log(rate / BEST_RATE) ** 2 + WORSE * (run.row == "worse")
    # The same in runs of the same config and seed, as of real ones.
    loss += 0.01 * math.sin(1 + 3 * seed + run.config["model"]["num_heads"])
    values = {"format": 1, **run._asdict(), "data_fingerprint": DATA, "direction": "en-de"}
    values |= {"vocabulary_fingerprint": "v0", "params": 1_000_000, "target_tokens": 2_000_000}
    values |= {"steps": 1100, "seconds": {"train": 60.0, "score": 2.0}, "commit": "0123abc"}
    scores = {"dev": {"perplexity": math.exp(loss), "tokens": 1000}}
    if run.kind != "trial":
        bleu = {"bleu": 90 - 20 * loss, "bleu_signature": SIGNATURE}
        scores["test"] = {"perplexity": math.exp(loss), **bleu}
    if run.kind == "trial" and rate > DIVERGES_ABOVE:
        values |= {"diverged": "diverged at step 7: the loss is nan"}
        scores = {"dev": {"perplexity": None}}
    record.write_json(directory / record.RECORD_FILE, values | {"scores": scores})
