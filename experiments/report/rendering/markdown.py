"""Tables as Markdown that reads well both as it is and rendered."""

import re
from collections.abc import Mapping, Sequence

from experiments.report.rendering.columns import Cell, Column, columns
from experiments.report.samples import SAMPLES
from experiments.report.summary import TableSummary

# What would not be shown literally. A mark after a space is not emphasis, nor is an underscore
# inside a word, where nearly all are.
_SPECIAL = re.compile(r"[\\`<>&\[\]~$]|(?<=\S)\*|(?<!\w)_|_(?!\w)")
# What begins a list or a heading at the start of a line.
_BEGINNING = re.compile(r"^([#+=*-]|\d+[.)])(?=\s|$)")


def markdown(found: Sequence[TableSummary]) -> str:
    """Every table with its notes, what is missing and the command that reproduces it."""
    return "\n".join(_table(table) for table in found)


def _table(table: TableSummary) -> str:
    its_columns = columns(table)
    texts = [_texts(column, table) for column in its_columns]
    widths = [max(3, *map(len, column)) for column in texts]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column.is_text else cell.rjust(width)
            for cell, width, column in zip(cells, widths, its_columns, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [
        "-" * width if column.is_text else "-" * (width - 1) + ":"
        for width, column in zip(widths, its_columns, strict=True)
    ]
    titles, *rows = zip(*texts, strict=True)
    title = markdown_escaped(table.title)
    lines = [f"## {title}", "", line(titles), line(rule), *map(line, rows)]
    for heading, sentences in (
        ("What was done:", table.method),
        ("How to read it:", table.notes),
        ("Missing:", table.unfinished),
    ):
        if sentences:
            lines += ["", heading, "", *(f"- {markdown_escaped(each)}" for each in sentences)]
    if table.samples:
        lines += ["", f"{SAMPLES}:"]
    for sample in table.samples:
        cells = ("source", sample.source), ("reference", sample.reference)
        lines += ["", f"| line {sample.line} | |", "|--|--|"]
        for cell in (*cells, *sample.translations.items()):
            lines.append(f"| {_in_a_cell(cell[0])} | {_in_a_cell(cell[1])} |")
    if table.commands:
        lines += ["", "Made anew by:", "", *(f"    {command}" for command in table.commands)]
    return "\n".join(lines) + "\n"


def links(words: Mapping[str, tuple[str, str]]) -> str:
    """A section with the figures; `words` has title and caption by file name."""
    figures = [
        f"### {title}\n\n![{title}]({file})\n\n{caption}\n"
        for file, (title, caption) in words.items()
    ]
    return "\n".join(["\n## Figures\n", *figures]) if figures else ""


def markdown_escaped(words: str) -> str:
    """A line of words that Markdown shows literally, outside of a table."""
    return _BEGINNING.sub(_with_backslash, _SPECIAL.sub(_with_backslash, words))


def _with_backslash(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}\\{found[0][-1]}"


def _texts(column: Column, table: TableSummary) -> list[str]:
    """Title and cells; if some have a mark, the others leave room for it, so that digits align."""
    cells = [column.cell(row) for row in table.rows]
    has_marks = any(cell.mark for cell in cells)

    def text(cell: Cell) -> str:
        room = "  " if has_marks and not cell.mark else ""
        return str(cell._replace(text=_in_a_cell(cell.text))) + room

    return [_in_a_cell(column.title), *map(text, cells)]


def _in_a_cell(words: str) -> str:
    return _SPECIAL.sub(_with_backslash, words).replace("|", "\\|")
