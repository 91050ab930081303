"""Records -> tables as Markdown, CSV, LaTeX and HTML, and figures."""

from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.report.rendering.comma_separated import csv_text
from experiments.report.rendering.latex import latex
from experiments.report.rendering.markdown import markdown
from experiments.report.rendering.page import html
from experiments.report.summary import TableSummary, summaries

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
    from experiments.report.figures import gallery

    return paths + gallery.write_pngs(found, workdir)


def _summaries(workdir: Path) -> list[TableSummary]:
    found = summaries(workdir) if workdir.is_dir() else []
    if not found:
        raise ValueError(f"there are no runs below {workdir}; experiments.sweep makes them")
    return found
