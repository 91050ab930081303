"""Tables as LaTeX with booktabs, grouped as the paper's Table 3 is."""

from collections.abc import Sequence
from itertools import groupby

from experiments.notes import MARK
from experiments.rendering.columns import Cell, Column, columns
from experiments.summary import RowSummary, TableSummary

_SPECIAL = {
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


def latex(found: Sequence[TableSummary]) -> str:
    """Tables for the packages booktabs and graphicx."""
    head = "% Needs \\usepackage{booktabs} and \\usepackage{graphicx}.\n"
    return head + "\n".join(_table(table) for table in found)


def latex_escaped(words: str) -> str:
    """The words as LaTeX prints them literally."""
    return "".join(_SPECIAL.get(character, character) for character in words)


def _table(table: TableSummary) -> str:
    # A mark says what a sentence would; the page is narrow.
    its_columns = [column for column in columns(table) if not column.is_sentence]
    sides = "".join("l" if column.is_text else "r" for column in its_columns)
    lines = [
        r"\begin{table}",
        rf"\caption{{{latex_escaped(table.title)}}}",
        r"\centering",
        r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        _line([_title(column) for column in its_columns]),
    ]
    for _, rows in groupby(table.rows, key=lambda row: row.group):
        lines += [r"\midrule", *(_row(row, its_columns) for row in rows)]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    sentences = [*table.notes, *(f"Missing: {one}" for one in table.unfinished)]
    lines += [r"\par\smallskip\raggedright\footnotesize"] if sentences else []
    lines += [rf"{latex_escaped(sentence)}\par" for sentence in sentences]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _row(row: RowSummary, its_columns: Sequence[Column]) -> str:
    return _line([_cell(column.cell(row), column.is_text) for column in its_columns])


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _title(column: Column) -> str:
    return latex_escaped(column.title).replace(r"10\textasciicircum{}6", "$10^6$")


def _cell(cell: Cell, is_text: bool) -> str:
    text = latex_escaped(cell.text)
    if not is_text and cell.text[:1] in ("+", "-"):
        text = f"${cell.text}$"  # a minus, not a hyphen
    # Of no width, so that digits align.
    return text + (rf"\rlap{{$^{MARK}$}}" if cell.is_marked else "")
