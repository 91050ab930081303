"""Records -> tables as Markdown, CSV, LaTeX and HTML, and figures."""

from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.report.rendering.comma_separated import csv_text
from experiments.report.rendering.latex import latex
from experiments.report.rendering.markdown import links, markdown
from experiments.report.rendering.page import html
from experiments.report.summary import MARGIN, TableSummary, summaries
from t2t_jax.json_files import write_bytes

FORMATS: dict[str, Callable[[Sequence[TableSummary]], str]] = {
    "markdown": markdown,
    "csv": csv_text,
    "latex": latex,
    "html": html,
}
_ENDINGS = {"markdown": "md", "csv": "csv", "latex": "tex", "html": "html"}


def text(workdir: Path, format_name: str, num_samples: int | None = None) -> str:
    """The tables of the runs below `workdir` in one of `FORMATS`.

    Raises:
      ValueError: there are no runs.
    """
    return FORMATS[format_name](read(workdir, num_samples))


def write_report(workdir: Path, num_samples: int | None = None) -> list[Path]:
    """`write` for everything below `workdir`.

    Raises:
      ValueError: there are no runs.
    """
    return write(read(workdir, num_samples), workdir)


def write(found: Sequence[TableSummary], workdir: Path) -> list[Path]:
    """Writes the tables in every format, and the figures there are; returns the files written."""
    # Imported here: matplotlib takes a second to load.
    from experiments.report.figures import gallery

    figures = gallery.write_pngs(found, workdir)
    paths = []
    for name, render in FORMATS.items():
        path = workdir / f"report.{_ENDINGS[name]}"
        content = render(found)
        if name == "markdown":
            content += links({figure.name: gallery.WORDS[figure.name] for figure in figures})
        write_bytes(path, content.encode())  # replaces a link, does not follow it
        paths.append(path)
    return paths + figures


def read(
    workdir: Path, num_samples: int | None = None, margin: float = MARGIN
) -> list[TableSummary]:
    """What there is to report below `workdir`; see `summary.summaries`.

    Raises:
      ValueError: there are no runs.
    """
    found = summaries(workdir, num_samples, margin) if workdir.is_dir() else []
    if not found:
        raise ValueError(f"there are no runs below {workdir}; experiments.sweep makes them")
    return found
