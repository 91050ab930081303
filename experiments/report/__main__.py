"""Records -> tables as Markdown, CSV, LaTeX and HTML, and figures.

    python -m experiments.report W
    python -m experiments.report W --format=csv

Reads every record below W, of finished sweeps or not, prints the tables and writes W/report.md,
report.csv, report.tex and report.html, and as far as there is something to draw
W/learning_curves.png, effects.png and bleu_by_length.png.
"""

import functools
import sys
from pathlib import Path

from absl import app, flags

from experiments.report.report import FORMATS, text, write_report
from t2t_jax.cli.command import parse_flags


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
    flags.DEFINE_enum("format", "markdown", list(FORMATS), "what to print; all are written")
    app.run(main, flags_parser=functools.partial(parse_flags, "report"))
