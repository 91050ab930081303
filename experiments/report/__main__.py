"""Records -> figures, and tables as Markdown, CSV, LaTeX and HTML.

    python -m experiments.report W
    python -m experiments.report W --format=csv
    python -m experiments.report W --samples=10
    python -m experiments.report W --margin=0.3
    python -m experiments.report W --pages

Reads every record below W, whether or not the sweep is finished, prints the tables and writes
W/report.md, report.csv, report.tex and report.html and, if there is something to draw,
W/learning_curves.png, effects.png, bleu_by_length.png and, of a tuned table, tuning.png. W may be
somebody else's: nothing in it is obeyed. A damaged file, or a record that belongs to another run
than the run.json beside it, affects only its own run and is named.

docs/STATISTICS.md says when a row differs from base; --margin sets when it counts as equally good.

For the embedded corpus, some test sentences are shown with each row's translations. The text of
other corpora may not be shareable: --samples asks for it, and reads it from where the runs had it.

--pages makes a page for each row: some of these sentences go through the model of its first
finished seed, as in `t2t-jax explain`. report.html links to the pages. It loads every model.
"""

import errno
import functools
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import app, flags

from experiments.run.plain_text import plain_text
from t2t_jax.buckets import local_path
from t2t_jax.cli.command import may_be_cut_off, parse_flags
from t2t_jax.json_files import error_text

if TYPE_CHECKING:
    from experiments.report.summary import TableSummary

# Same as report.FORMATS, whose import would slow down --help.
FORMATS = ("markdown", "csv", "latex", "html")


def main(argv: list[str]) -> None:
    """Reads the flags, prints and writes the report."""
    if len(argv) != 2:
        sys.exit("report: one argument is needed, the workdir of a sweep; see --help")
    from experiments.report import report
    from experiments.report.samples import WHY_NONE

    try:
        workdir = local_path(argv[1], "W")
        if math.isnan(flags.FLAGS.margin):
            raise ValueError("--margin=nan; it must be a number from 0 to 100")
        read = functools.partial(report.read, workdir, flags.FLAGS.samples, flags.FLAGS.margin)
        found = read()
        if flags.FLAGS.pages:
            from experiments.report.pages import write_pages

            write_pages(found, lambda line: print(f"report: {line}", file=sys.stderr))
            found = read()
        elif flags.FLAGS.samples:
            for table in (each for each in found if not each.samples):
                print(f"report: {table.name} shows no sentences: {WHY_NONE}", file=sys.stderr)
        written = _written(found, workdir)
        with may_be_cut_off():
            print(report.FORMATS[flags.FLAGS.format](found))
    except (OSError, ValueError) as error:
        sys.exit(f"report: {plain_text(error)}")
    for sentence in (sentence for table in found for sentence in table.damaged):
        print(f"report: left out: {sentence}", file=sys.stderr)
    # To standard error: standard output may be CSV or LaTeX on its way into a file.
    print(written, file=sys.stderr)


def _written(found: "list[TableSummary]", workdir: Path) -> str:
    """Writes the report, and says where; or why it is only printed: W may be somebody else's."""
    from experiments.report import report

    try:
        paths = report.write(found, workdir)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return f"report: only printed: {plain_text(error_text(error))}"
    return "written: " + "  ".join(map(plain_text, paths))


if __name__ == "__main__":
    flags.DEFINE_enum("format", "markdown", FORMATS, "what to print; all formats are written")
    flags.DEFINE_integer(
        "samples",
        None,
        "test sentences to show with their translations, whatever the corpus; default: 5 for the "
        "embedded corpus, none for others",
        lower_bound=0,
    )
    flags.DEFINE_float(
        "margin",
        0.5,  # as summary.MARGIN
        "points of BLEU or accuracy: a row shown to be nearer to base than this counts as "
        "equally good, not merely as not different",
        lower_bound=0.0,
        upper_bound=100.0,
    )
    flags.DEFINE_bool("pages", False, "make a page for each row, see above")
    app.run(main, flags_parser=functools.partial(parse_flags, "report"))
