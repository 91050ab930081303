r"""A record to beat: from the command to a score on test, in seconds, over seeds.

    python -m experiments.speedrun --config=configs/multi30k.py --config.data.directory=DIR \
      --target=35.0 --seeds=5 --workdir=W

Each seed learns the vocabulary, prepares, compiles, trains, chooses a checkpoint on dev and scores,
reusing nothing from before. Run the same command again for the unfinished seeds. W/record.json says
whether it counts by the rules of docs/SPEEDRUN.md. A record that counts is kept in
experiments/results/speedrun; `python -m experiments.speedrun.records` makes the tables.
"""

import functools
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from absl import app, flags
from ml_collections import config_flags

from t2t_jax.cli.command import parse_flags
from t2t_jax.cli.given_config import given_config

_REPOSITORY = Path(__file__).parents[2]


def main(_: list[str]) -> None:
    """Runs the seeds, writes the record and says whether it counts."""
    from experiments.speedrun.records import RECORDS
    from experiments.speedrun.rules import Record, read_records, standing, why_not
    from experiments.speedrun.seeds import run_seeds
    from t2t_jax.buckets import local_path
    from t2t_jax.locks import locked

    values = flags.FLAGS
    try:
        workdir = local_path(values.workdir, "--workdir")
        given = config_flags.get_override_values(values["config"])
        if "data.cache" in given:
            raise ValueError("--config.data.cache is not for a speedrun: each seed has its own")
        config = given_config("config", lambda line: print(line, file=sys.stderr))
        kept = read_records(RECORDS)
        workdir.mkdir(parents=True, exist_ok=True)
        with locked(workdir / "lock", f"runs a speedrun in {workdir}", patience=0.0):
            common, seeds = run_seeds(config, workdir, values.seeds)
        when = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        record = Record(when, float(values.target), _command(given), **common, seeds=seeds)
        before = standing(kept, record)
        record.write(workdir / "record.json", before)
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"speedrun: {error}")
    except KeyboardInterrupt:
        sys.exit("speedrun: stopped; the same command begins with the seed that was stopped")
    why = why_not(record, before)
    told = f"does not count: {why}" if why else f"counts: keep it in {RECORDS}"
    print(f"{workdir / 'record.json'} {told}")


def _command(given: dict[str, Any]) -> str:
    """The command as others can type it, with placeholders for directories."""
    values = flags.FLAGS
    keys = {**given, "data.directory": "DIR"}
    file = Path(config_flags.get_config_filename(values["config"])).resolve()
    if file.is_relative_to(_REPOSITORY):
        file = file.relative_to(_REPOSITORY)
    words = [f"--config={file}", *(f"--config.{key}={value}" for key, value in keys.items())]
    words += [f"--target={values.target}", f"--seeds={values.seeds}", "--workdir=W"]
    return f"python -m experiments.speedrun {shlex.join(words)}"


if __name__ == "__main__":
    config_flags.DEFINE_config_file("config", None, "a file such as configs/multi30k.py")
    flags.DEFINE_enum("target", None, ["35.0", "41.0"], "BLEU on test that the seeds must exceed")
    flags.DEFINE_integer("seeds", 5, "how many; counted up from the config's", lower_bound=1)
    flags.DEFINE_string("workdir", None, "where the seeds and the record go")
    flags.mark_flags_as_required(["config", "target", "workdir"])
    app.run(main, flags_parser=functools.partial(parse_flags, "speedrun"))
