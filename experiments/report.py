"""Records -> tables as Markdown, CSV, LaTeX and HTML, and figures.

    python -m experiments.report W
    python -m experiments.report W --format=csv

Reads every record below W, of finished sweeps or not, prints the tables and writes W/report.md,
report.csv, report.tex and report.html, and as far as there is something to draw
W/learning_curves.png, effects.png and bleu_by_length.png.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags

from experiments.rendering.comma_separated import csv_text
from experiments.rendering.latex import latex
from experiments.rendering.markdown import markdown
from experiments.rendering.page import html
from experiments.summary import TableSummary, summaries
from t2t_jax.cli.command import parse_flags

FORMATS: dict[str, Callable[[Sequence[TableSummary]], str]] = {
    "markdown": markdown,
    "csv": csv_text,
    "latex": latex,
    "html": html,
}
_ENDINGS = {"markdown": "md", "csv": "csv", "latex": "tex", "html": "html"}


def text(workdir: Path, format_name: str) -> str:
    """The tables of the runs below `workdir` in one of `FORMATS`.

    Raises:
      ValueError: there are no runs.
    """
    return FORMATS[format_name](_summaries(workdir))


def write_report(workdir: Path) -> list[Path]:
    """Writes the tables in every format, and the figures there are; what was written.

    Raises:
      ValueError: there are no runs.
    """
    found = _summaries(workdir)
    paths = []
    for name, render in FORMATS.items():
        path = workdir / f"report.{_ENDINGS[name]}"
        path.write_text(render(found), encoding="utf-8")
        paths.append(path)
    # Here: matplotlib takes a second to load.
    from experiments.figures import gallery

    return paths + gallery.write_pngs(found, workdir)


def _summaries(workdir: Path) -> list[TableSummary]:
    found = summaries(workdir) if workdir.is_dir() else []
    if not found:
        raise ValueError(f"there are no runs below {workdir}; experiments.sweep makes them")
    return found


def define_flags() -> None:
    """The command's flags; not at import, since sweep imports this module."""
    flags.DEFINE_enum("format", "markdown", list(FORMATS), "what to print; all are written")


def main(argv: list[str]) -> None:
    """Reads the flags, prints and writes the report."""
    if len(argv) != 2:
        sys.exit("report: one argument is needed, the workdir of a sweep; see --help")
    workdir = Path(argv[1])
    try:
        print(text(workdir, flags.FLAGS.format))
        paths = write_report(workdir)
    except ValueError as error:
        sys.exit(f"report: {error}")
    # Not among the CSV or LaTeX that may be going into a file.
    print("written: " + "  ".join(str(path) for path in paths), file=sys.stderr)


if __name__ == "__main__":
    define_flags()
    app.run(main, flags_parser=functools.partial(parse_flags, "report"))
