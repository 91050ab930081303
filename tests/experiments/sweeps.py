"""Small sweeps of the quickstart's rows: prepared, or as if they were finished."""

from collections.abc import Sequence
from pathlib import Path

from configs import tiny
from experiments.sweep import prepared_runs
from experiments.tables import quickstart
from tests.experiments import fakes

CONFIG = tiny.get_config()
TABLE = quickstart.TABLE


def prepared(workdir: Path, patterns: str, num_seeds: int = 1, config=CONFIG) -> list[Path]:
    """The directories of runs that are still to be done."""
    rows = TABLE.rows(config).select(patterns)
    return prepared_runs.prepare(TABLE, rows, config, num_seeds, workdir)


def write_sweep(workdir: Path) -> Path:
    """Three seeds of the base, two of one head, one of no positions."""
    scores = {
        "no_positions": [(4.0, 60.0)],
        "base": [(1.2, 92.0), (1.3, 91.0), (1.4, 93.0)],
        "one_head": [(1.5, 90.0), (1.7, 88.0)],
    }
    for row, seeds in scores.items():
        write_row(workdir, row, seeds)
    return workdir


def write_row(workdir: Path, row: str, seeds: Sequence[tuple[float, float]]) -> None:
    """Records of a row, from perplexity and BLEU of each seed."""
    for seed, (perplexity, bleu) in enumerate(seeds):
        fakes.write_record(workdir, TABLE, CONFIG, row, seed, perplexity=perplexity, bleu=bleu)


def write_a_difference_that_other_rows_take_back(workdir: Path) -> None:
    """Four rows, three seeds each; one head differs from base, but not if it is one of three."""
    noise = {
        "base": (0.0, 0.5, 1.0),
        "one_head": (-1.5, -1.0, -1.1),
        "one_layer": (0.9, 0.2, 0.4),
        "no_positions": (0.4, 1.1, 0.1),
    }
    for row, seeds in noise.items():
        write_row(workdir, row, [(2.0, 90.0 + bleu) for bleu in seeds])
