"""The commands that reproduce a table, derived from its runs."""

import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.report.measures import test_sets
from experiments.run.outcomes import Outcome, records_of
from experiments.tables.paper_base import CONFIGS, config_file
from t2t_jax.json_files import flat_dict
from t2t_jax.runs.effect import unmet
from t2t_jax.runs.keys import completed

# Paths on one machine are of no use on another.
_ELSEWHERE = {"data.directory": "DIR", "data.cache": None}


def sweep_commands(
    table: str, outcomes: Sequence[Outcome], known_rows: Collection[str], more: Collection[str] = ()
) -> list[str]:
    """`sweep_command` with `more` flags, and a command for each test set that was scored later."""
    command = sweep_command(table, outcomes, known_rows)
    if command is None:
        return []
    command = " ".join([command, *more])
    return [command, *_score_commands(outcomes)]


def _score_commands(outcomes: Sequence[Outcome]) -> Iterator[str]:
    records = records_of(outcomes)
    for name in sorted({name for values in records for name in test_sets(values)}):
        scores = next(each["scores"][name] for each in records if name in each["scores"])
        files = scores.get("files")
        if not isinstance(files, list) or list(map(type, files)) != [str, str]:
            continue  # a record that is damaged, or somebody else's
        source, reference = (shlex.quote(f"DIR/{Path(file).name}") for file in files)
        flags = f"--source={source} --reference={reference} --name={shlex.quote(name)}"
        yield f"python -m experiments.sweep score W {flags}"


def sweep_command(
    table: str, outcomes: Sequence[Outcome], known_rows: Collection[str]
) -> str | None:
    """The `experiments.sweep` of these rows and seeds, with the nearest file of configs/ as base.

    None if no file has the keys of the runs' base config: they are of another version.
    """
    base = completed(flat_dict(outcomes[0].run.base))
    configs = [completed(flat_dict(outcome.run.config)) for outcome in outcomes]
    seeds = sorted({outcome.run.seed for outcome in outcomes})
    nearest: tuple[str, list[str]] | None = None
    for path in sorted(CONFIGS.glob("[!_]*.py")):
        config = config_file(path.stem)
        if config.keys() != base.keys():
            continue
        overrides = _overrides(config, base | {"seed": seeds[0]}, configs)
        if nearest is None or len(overrides) < len(nearest[1]):
            nearest = f"configs/{path.name}", overrides
    if nearest is None:
        return None
    words = ["python -m experiments.sweep", shlex.quote(table), f"--base={nearest[0]}", *nearest[1]]
    run = {outcome.run.row for outcome in outcomes}
    if run != set(known_rows):
        rows = [row for row in known_rows if row in run]
        words.append(f"--rows={shlex.quote(','.join(rows))}")
    # Of base's runs nothing is stretched, so they fit any.
    if equals := [each.run.equal for each in outcomes if each.run.equal != "steps"]:
        words.append(f"--equal={equals[0]}")
    if len(seeds) > 1:
        words.append(f"--seeds={seeds[-1] - seeds[0] + 1}")
    return " ".join([*words, "--workdir=W"])


def _overrides(
    config: dict[str, Any], wanted: dict[str, Any], configs: list[dict[str, Any]]
) -> list[str]:
    """Flags that turn `config` into the `wanted` base, for keys that a run of `configs` reads."""
    flags = []
    for key, value in wanted.items():
        if all(unmet(key, each) for each in configs):
            continue  # the sweep would refuse it
        if value != config[key] and (shown := _ELSEWHERE.get(key, value)) is not None:
            flags.append(f"--base.{key}={shlex.quote(str(shown))}")
    return flags
