"""Records -> tables as Markdown, CSV and LaTeX, and the learning curves.

    python -m experiments.report W
    python -m experiments.report W --format=csv

Reads every record below W, finished or not, prints the tables and writes W/report.md,
W/report.csv, W/report.tex and W/learning_curves.png.
"""

import csv
import functools
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags, logging

from experiments.summary import Measure, RowSummary, TableSummary, summaries
from t2t_jax.cli.command import parse_flags


def text(workdir: Path, format_name: str) -> str:
    """The tables of the runs below `workdir` in one of `FORMATS`.

    Raises:
      ValueError: there are no runs.
    """
    return FORMATS[format_name](_summaries(workdir))


def write_report(workdir: Path) -> list[Path]:
    """Writes the tables in every format, and the figure if a run left a curve; what was written.

    Raises:
      ValueError: there are no runs.
    """
    found = _summaries(workdir)
    paths = []
    for name, ending in (("markdown", "md"), ("csv", "csv"), ("latex", "tex")):
        path = workdir / f"report.{ending}"
        path.write_text(FORMATS[name](found), encoding="utf-8")
        paths.append(path)
    # Here: matplotlib takes a second to load.
    from experiments import figures

    panels = figures.panels(found)
    if panels:
        path = workdir / "learning_curves.png"
        figures.learning_curves(panels, path)
        paths.append(path)
    return paths


def _summaries(workdir: Path) -> list[TableSummary]:
    found = summaries(workdir) if workdir.is_dir() else []
    if not found:
        raise ValueError(f"there are no runs below {workdir}; experiments.sweep makes them")
    return found


class _Column:
    """A column of the printed tables: its title, and its text for a row."""

    def __init__(self, title: str, cell: Callable[[RowSummary], str], is_text: bool = False):
        self.title = title
        self.cell = cell
        self.is_text = is_text


def _columns(table: TableSummary) -> list[_Column]:
    """What this table has something to say in; no column is empty from top to bottom."""
    columns = [
        _Column("row", lambda row: row.name, is_text=True),
        _Column("changes", lambda row: row.changes, is_text=True),
        _Column("n", lambda row: str(row.num_seeds)),
        _Column("params (10^6)", lambda row: _params_text(row.params)),
        _Column("PPL (dev)", lambda row: _measure_text(row.perplexity, 2)),
        _Column("ΔPPL", lambda row: _signed(row.perplexity_difference, 2)),
        _Column("BLEU (dev)", lambda row: _measure_text(row.dev_bleu, 1)),
        _Column("BLEU (test)", lambda row: _measure_text(row.bleu, 1)),
        _Column("ΔBLEU", lambda row: _signed(row.bleu_difference, 1)),
    ]
    if table.has_paper_base:
        columns += [
            _Column("paper PPL", lambda row: f"{row.paper.perplexity:.2f}" if row.paper else ""),
            _Column("paper BLEU", lambda row: f"{row.paper.bleu:.1f}" if row.paper else ""),
        ]
    columns += [
        _Column("seconds", lambda row: _plain(row.seconds, 0)),
        _Column("tokens (10^6)", lambda row: _plain(row.target_tokens, 2)),
    ]
    optional = {"BLEU (dev)", "ΔPPL", "ΔBLEU"}
    return [
        column
        for column in columns
        if column.title not in optional or any(column.cell(row) for row in table.rows)
    ]


def _plain(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _params_text(millions: float | None) -> str:
    # Two rows of a small model may differ by ten thousand parameters, of a large one by a million.
    return "" if millions is None else f"{millions:.{3 if millions < 10 else 1}f}"


def _signed(value: float | None, digits: int) -> str:
    if value is None:
        return ""
    # Adding 0.0 after rounding makes -0.00 a plain 0.00.
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def _measure_text(measure: Measure | None, digits: int) -> str:
    if measure is None:
        return ""
    spread = "" if measure.spread is None else f" ± {measure.spread:.{digits}f}"
    return f"{measure.mean:.{digits}f}{spread}"


def markdown(found: Sequence[TableSummary]) -> str:
    """Tables that read well both as they are and rendered."""
    return "\n".join(_markdown_table(table) for table in found)


def _markdown_table(table: TableSummary) -> str:
    columns = _columns(table)
    cells = [[column.cell(row) for column in columns] for row in table.rows]
    widths = [
        max(len(column.title), *(len(line[index]) for line in cells), 3)
        for index, column in enumerate(columns)
    ]

    def line(texts: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column.is_text else cell.rjust(width)
            for cell, width, column in zip(texts, widths, columns, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [
        "-" * width if column.is_text else "-" * (width - 1) + ":"
        for width, column in zip(widths, columns, strict=True)
    ]
    lines = [f"## {table.title}", "", line([column.title for column in columns]), line(rule)]
    lines += [line(texts) for texts in cells]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    if table.unfinished:
        lines += ["", "Missing:", "", *(f"- {sentence}" for sentence in table.unfinished)]
    return "\n".join(lines) + "\n"


_CSV_COLUMNS = (
    "table",
    "row",
    "changes",
    "num_seeds",
    "params_millions",
    "dev_perplexity_mean",
    "dev_perplexity_spread",
    "dev_perplexity_difference",
    "dev_bleu_mean",
    "dev_bleu_spread",
    "test_bleu_mean",
    "test_bleu_spread",
    "test_bleu_difference",
    "seconds",
    "target_tokens_millions",
    "paper_perplexity",
    "paper_bleu",
)


def csv_text(found: Sequence[TableSummary]) -> str:
    """One line per row of every table, numbers in full; an empty cell was not measured."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for table in found:
        for row in table.rows:
            writer.writerow(_csv_row(table, row))
    return stream.getvalue()


def _csv_row(table: TableSummary, row: RowSummary) -> list:
    nothing = Measure(None, None)  # type: ignore[arg-type]
    perplexity, dev_bleu, bleu = (
        measure or nothing for measure in (row.perplexity, row.dev_bleu, row.bleu)
    )
    paper = row.paper if table.has_paper_base else None
    return [
        table.name,
        row.name,
        row.changes,
        row.num_seeds,
        row.params,
        *perplexity,
        row.perplexity_difference,
        *dev_bleu,
        *bleu,
        row.bleu_difference,
        row.seconds,
        row.target_tokens,
        paper and paper.perplexity,
        paper and paper.bleu,
    ]


_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
}


def latex_escaped(words: str) -> str:
    """The words as LaTeX prints them literally."""
    return "".join(_LATEX_SPECIAL.get(character, character) for character in words)


def latex(found: Sequence[TableSummary]) -> str:
    """Tables for the packages booktabs and graphicx."""
    head = "% Needs \\usepackage{booktabs} and \\usepackage{graphicx}.\n"
    return head + "\n".join(_latex_table(table) for table in found)


def _latex_table(table: TableSummary) -> str:
    columns = _columns(table)

    def line(texts: Sequence[str]) -> str:
        return " & ".join(latex_escaped(cell) for cell in texts) + r" \\"

    titles = line([column.title for column in columns]).replace(r"10\textasciicircum{}6", "$10^6$")
    lines = [
        r"\begin{table}",
        rf"\caption{{{latex_escaped(table.title)}}}",
        r"\centering",
        r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{{''.join('l' if column.is_text else 'r' for column in columns)}}}",
        r"\toprule",
        titles,
        r"\midrule",
        *(line([column.cell(row) for column in columns]) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}}",
        *(rf"\par\footnotesize {latex_escaped(note)}" for note in table.notes),
        *(rf"\par\footnotesize Missing: {latex_escaped(one)}" for one in table.unfinished),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[[Sequence[TableSummary]], str]] = {
    "markdown": markdown,
    "csv": csv_text,
    "latex": latex,
}


def define_flags() -> None:
    """The command's flags; not at import, since sweep imports this module."""
    flags.DEFINE_enum("format", "markdown", list(FORMATS), "what to print; all are written")


def main(argv: list[str]) -> None:
    """Reads the flags, prints and writes the report."""
    logging.set_verbosity(logging.WARNING)  # the libraries tell a lot
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
