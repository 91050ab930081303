"""Tables and figures as one self-contained HTML page, for light, dark and print."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from urllib.parse import quote

from experiments.report.rendering.columns import Column, columns
from experiments.report.rendering.page_style import STYLE
from experiments.report.samples import SAMPLES
from experiments.report.summary import RowSummary, TableSummary

# Pixels: a page of 1,400 within its margins, rounded down since the others are estimates; the
# padding of a cell; a letter.
_PAGE = 1300
_PADDING = 16
_LETTER = 8


def html(found: Sequence[TableSummary]) -> str:
    """Every table with its notes, what is missing, its figures and the command to reproduce it."""
    title = found[0].title if len(found) == 1 else "Ablation tables"
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(title)}</h1>",
        *_contents(found),
    ]
    for number, table in enumerate(found):
        parts += _section(table, number, has_title=len(found) > 1)
    return "\n".join([*parts, "</main>", "</body>", "</html>"]) + "\n"


def _contents(found: Sequence[TableSummary]) -> Iterator[str]:
    if len(found) > 1:
        yield "<nav><ul>"
        for number, table in enumerate(found):
            yield f'<li><a href="#table-{number}">{escape(table.title)}</a></li>'
        yield "</ul></nav>"


def _section(table: TableSummary, number: int, *, has_title: bool) -> Iterator[str]:
    yield f'<section id="table-{number}">'
    if has_title:
        yield f"<h2>{escape(table.title)}</h2>"
    yield from _table(table)
    yield from _list("What was done", table.method)
    yield from _list("How to read it", table.notes)
    yield from _list("Missing", table.unfinished)
    yield from _samples(table)
    yield from _figures(table)
    if table.commands:
        commands = map(_command, [*table.commands, "python -m experiments.report W"])
        yield "<h3>Made anew by</h3>"
        yield "<pre><code>" + "\n".join(commands) + "</code></pre>"
    yield "</section>"


def _table(table: TableSummary) -> Iterator[str]:
    its_columns = list(_twice_what_precedes_scores(columns(table)))
    # A wide table scrolls by itself, by keyboard too, while the page stays in place.
    yield '<p class="narrow hint">The table scrolls sideways: there is more to the right.</p>'
    if _least_pixels(its_columns, table) > _PAGE:
        yield '<p class="wide hint">Where the table is wider than the page it scrolls sideways.</p>'
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(table.title)}">'
    yield "<table>"
    yield "<thead><tr>"
    for column, where in its_columns:
        yield f'<th scope="col"{_class(column, where)}>{_title(column.title)}</th>'
    yield "</tr></thead>"
    for _, rows in groupby(table.rows, key=lambda row: row.group):
        yield "<tbody>"
        yield from (_row(row, its_columns) for row in rows)
        yield "</tbody>"
    yield "</table></div>"


def _least_pixels(its_columns: Sequence[tuple[Column, str]], table: TableSummary) -> float:
    """Approximate minimum width of the table on a wide page, from the cell widths in `STYLE`."""
    pixels = 0.0
    for place, (column, where) in enumerate(its_columns):
        if where == "narrow":
            continue
        if column.is_text and place:  # words wrap
            pixels += _PADDING + (160 if where == "wide" else 272)
            continue
        cells = max((len(column.cell(row).text) for row in table.rows), default=0)
        pixels += _PADDING + _LETTER * max(cells + 1, *map(len, column.title.split()))
    return pixels


def _twice_what_precedes_scores(its_columns: Sequence[Column]) -> Iterator[tuple[Column, str]]:
    """Each column with the class of its cells; on a narrow page the scores come first."""
    first, *others = its_columns
    places = [place for place, column in enumerate(others) if column.is_score]
    before, after = (others[: places[0]], others[places[0] :]) if places else ([], others)
    yield first, ""
    yield from ((column, "wide") for column in before)
    yield from ((column, "") for column in after)
    yield from ((column, "narrow") for column in before)


def _row(row: RowSummary, its_columns: Sequence[tuple[Column, str]]) -> str:
    (first, _), *others = its_columns
    name = escape(first.cell(row).text)
    if row.page:
        name = f'<a href="{escape(quote(row.page))}">{name}</a>'
    cells = [f'<th scope="row">{name}</th>']
    for column, where in others:
        cell = column.cell(row)
        text = escape(cell.text)
        if not column.is_text and text.startswith("-"):
            text = "\N{MINUS SIGN}" + text[1:]
        mark = f'<b class="mark">{cell.mark}</b>'
        cells.append(f"<td{_class(column, where)}>{text}{'' if column.is_text else mark}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _class(column: Column, where: str) -> str:
    names = " ".join(filter(None, ("text" if column.is_text else "", where)))
    return f' class="{names}"' if names else ""


def _command(command: str) -> str:
    """A line that breaks at spaces only, not within a flag."""
    return " ".join(f"<span>{escape(word)}</span>" for word in command.split(" "))


def _title(title: str) -> str:
    return escape(title).replace("10^6", "10<sup>6</sup>")


def _list(heading: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield f"<h3>{heading}</h3>"
        yield "<ul>"
        yield from (f"<li>{escape(sentence)}</li>" for sentence in sentences)
        yield "</ul>"


def _samples(table: TableSummary) -> Iterator[str]:
    if not table.samples:
        return
    yield f"<details><summary>{SAMPLES}</summary>"
    for sample in table.samples:
        yield f'<table class="sample"><caption>line {sample.line}</caption><tbody>'
        cells = ("source", sample.source), ("reference", sample.reference)
        for name, text in (*cells, *sample.translations.items()):
            cell = f'<td class="text" dir="auto">{escape(text)}</td>'
            yield f'<tr><th scope="row">{escape(name)}</th>{cell}</tr>'
        yield "</tbody></table>"
    yield "</details>"


def _figures(table: TableSummary) -> Iterator[str]:
    # Imported here: matplotlib takes a second to load.
    from experiments.report.figures import gallery

    for picture in gallery.pictures([table]):
        title, caption = escape(picture.title), escape(picture.caption)
        yield "<figure>"
        yield f'<h3 class="narrow">{title}</h3>'  # the one in the figure is too small there
        yield f'<img alt="{title}: {escape(table.title)}" src="{gallery.data_uri(picture)}">'
        yield f"<figcaption>{caption}</figcaption>"
        yield "</figure>"
