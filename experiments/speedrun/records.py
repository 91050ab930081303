"""The tables of docs/SPEEDRUN.md, made from the kept records.

    python -m experiments.speedrun.records

One table per target and hardware: the config as it is, if that was run, then each record that beat
the one above it.
The command of the last is below.
"""

import functools
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app

from experiments.speedrun.rules import Record, changes, read_records, standing
from t2t_jax.cli.command import parse_flags

_REPOSITORY = Path(__file__).parents[2]
RECORDS = _REPOSITORY / "experiments" / "results" / "speedrun"
DOCUMENT = _REPOSITORY / "docs" / "SPEEDRUN.md"
_BEGIN = "<!-- made by `python -m experiments.speedrun.records` -->\n"
_WIDTH = 100  # of the lines of a command
_HEAD = (
    "| seconds | of them training | BLEU | what it changed | date, commit |\n|--:|--:|--|--|--|\n"
)


def document(text: str, records: Sequence[Record]) -> str:
    """The document with its records replaced by these, in the order of `read_records`.

    Raises:
      ValueError: it does not mark where they go.
    """
    before, begin, _ = text.partition(_BEGIN)
    if not begin:
        raise ValueError(f"{DOCUMENT} has no line {_BEGIN.strip()}")
    lines = sorted({(record.target, record.hardware) for record in records})
    tables = [_table(*line, records) for line in lines]
    return before + begin + ("".join(tables) or "\nNo record yet.\n")


def _table(target: float, hardware: str, records: Sequence[Record]) -> str:
    rows = [
        (record, standing(records[:place], record))
        for place, record in enumerate(records)
        if (record.target, record.hardware) == (target, hardware)
    ]
    head = f"\n## {target} BLEU: {hardware}\n\n{_HEAD}"
    newest, _ = rows[-1]
    command = _command_lines(newest.command)
    at = f"at {newest.commit[:7]} (later config files may differ)"
    last = f"\nThe last of them, {at}:\n\n{command}"
    return head + "".join(_row(*row) for row in rows) + last


def _command_lines(command: str) -> str:
    """The command as an indented block, broken between its words."""
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n      ".join([f"    {lines[0]}", *lines[1:]]) + "\n"


def _row(record: Record, before: Record | None) -> str:
    training = statistics.fmean(seed.seconds["train"] for seed in record.seeds)
    bleu = f"{record.bleu:.2f}, {len(record.seeds)} seeds, p = {record.p_value:.1g}"
    changed = [f"`{key}={new}` ({old})" for key, (old, new) in changes(record, before).items()]
    what = ", ".join(changed) or "the code alone"
    if record.as_it_is:
        what = "the config as it is"
    elif before is None:
        what = "the first"
    of = f"{record.when[:10]}, {record.commit[:7]}"
    cells = f"{record.seconds:,.1f}", f"{training:,.1f}", bleu, what, of
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def main(_: list[str]) -> None:
    """Rewrites the document."""
    try:
        text = document(DOCUMENT.read_text("utf-8"), read_records(RECORDS))
    except (OSError, ValueError) as error:
        sys.exit(f"speedrun.records: {error}")
    DOCUMENT.write_text(text, "utf-8")
    print(f"written: {DOCUMENT}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse_flags, "speedrun.records"))
