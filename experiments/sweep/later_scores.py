"""Scores every finished run of a sweep on another test set, long after training."""

import sys
from pathlib import Path

from ml_collections import ConfigDict

from experiments.report import report
from experiments.run import record
from experiments.run.outcomes import read_outcomes
from experiments.run.plain_text import plain_text


def score(workdir: Path, source: Path, reference: Path, name: str | None) -> int:
    """Adds the scores on two files to the record of each finished run, and rewrites the report.

    Runs that have them already are skipped.

    Returns:
      How many runs could not be scored; the reasons are printed.

    Raises:
      ValueError: there are no finished runs, some have scores of other files under this name, or
        `read_given` refuses the files.
    """
    from t2t_jax.runs.keys import with_later_keys
    from t2t_jax.runs.score import score_files
    from t2t_jax.runs.scored_text import read_given
    from t2t_jax.runs.sections import read_sections

    given = read_given(source, reference, name)
    outcomes = read_outcomes(workdir).runs
    directories = [
        outcome.directory
        for outcome in outcomes
        if outcome.record is not None and outcome.run.kind != "trial"
    ]
    if not directories:
        raise ValueError(f"there are no finished runs below {workdir}")
    for outcome in outcomes:
        before = (outcome.record or {}).get("scores", {}).get(given.name, {}).get("sha256")
        if before not in (None, given.sha256):
            raise ValueError(
                f"{plain_text(outcome.directory)} has scores of other files as {given.name!r}: "
                "give these files another --name"
            )
    num_failed = 0
    for directory in directories:
        values = record.read_record(directory)
        scores = values.get("scores", {}).get(given.name, {})
        if scores.get("sha256") == given.sha256:
            continue
        try:
            config = with_later_keys(record.read_run(directory).config)
            sections = read_sections(ConfigDict(config))
            scores = score_files(directory, given, sections)
        except (OSError, TypeError, ValueError) as error:
            print(f"{plain_text(directory)} has no scores: {plain_text(error)}", file=sys.stderr)
            num_failed += 1
            continue
        values = record.read_record(directory)  # another command may have added its scores
        values.setdefault("scores", {})[given.name] = scores
        record.write_json(directory / record.RECORD_FILE, values)
        print(f"{directory}: BLEU {scores['bleu']:.1f} of {given.name}", flush=True)
    written = report.write_report(workdir)
    print("\n" + report.text(workdir, "markdown", 0))
    print("written: " + "  ".join(str(path) for path in written))
    return num_failed
