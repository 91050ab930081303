"""One seed of a speedrun: prepares, trains, chooses a checkpoint on dev, scores.

A process of its own with a directory as argument, started and timed by `seeds.py`.
"""

import sys
import time
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from t2t_jax.json_files import read_json, write_json

CONFIG_FILE = "config.json"
FOUND_FILE = "found.json"
_METRIC = "bleu_moses_lower"


def run(directory: Path) -> None:
    """Runs the seed by its `config.json`; writes `found.json`."""
    from experiments.benchmarks.records import machine
    from experiments.run.run import versions
    from t2t_jax.data.corpora.corpus import content_hashes
    from t2t_jax.runs.prepare import prepare
    from t2t_jax.runs.score import score
    from t2t_jax.runs.sections import read_sections
    from t2t_jax.runs.train import train

    workdir = directory / "run"
    sections = read_sections(ConfigDict(read_json(directory / CONFIG_FILE)))
    times = [time.monotonic()]
    splits = prepare(sections).manifest["splits"].items()
    times.append(time.monotonic())
    train(sections, workdir)
    times.append(time.monotonic())
    step = _chosen_step(workdir, sections)
    times.append(time.monotonic())
    bleu = score(workdir, "test", sections, checkpoint=step)["metrics"][_METRIC]["score"]
    times.append(time.monotonic())
    stages = zip(("prepare", "train", "choose", "score"), times, times[1:], strict=False)
    devices = read_json(workdir / "training.json")["hardware"]
    cores = "{cpu}, {cores} cores".format_map(machine())
    found = {
        "bleu": bleu,
        "step": step,
        "seconds": {stage: end - begin for stage, begin, end in stages},
        "hardware": cores if devices.endswith(" cpu") else devices,
        "text": content_hashes(sections.data),
        "versions": versions(),  # here, since it takes the devices
        "pairs": {split: each["pairs"] + sum(each["dropped"].values()) for split, each in splits},
    }
    write_json(directory / FOUND_FILE, found)


def _chosen_step(workdir: Path, sections: Any) -> int:
    """The step of the kept checkpoint, or mean of checkpoints, with the best BLEU on dev.

    There is one more on disk than `training.keep_checkpoints`. A single one is chosen untranslated.
    """
    from t2t_jax.runs.score import score_checkpoints
    from t2t_jax.runs.workdir import checkpoint_steps

    steps = checkpoint_steps(workdir)[sections.decoding.average_checkpoints - 1 :]
    if len(steps) == 1:
        return steps[0]
    curve = score_checkpoints(workdir, "dev", sections)
    return max(curve, key=lambda scores: scores["metrics"][_METRIC]["score"])["step"]


if __name__ == "__main__":
    run(Path(sys.argv[1]))
