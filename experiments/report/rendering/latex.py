"""Tables as LaTeX with booktabs, in the groups and with the columns of the paper's Table 3."""

import re
from collections.abc import Iterator, Sequence, Set
from functools import partial
from itertools import groupby

from experiments.report.effects import MARK, MODELS_MARK
from experiments.report.rendering.columns import Cell, Column, columns
from experiments.report.summary import RowSummary, TableSummary
from experiments.tables.ablation import changes_text
from t2t_jax.json_files import flat_dict

# The paper's columns, and the keys whose common value each shows.
_SETTINGS = (
    (r"$N$", ("model.num_encoder_layers", "model.num_decoder_layers")),
    (r"$N_{\mathrm{enc}}$", ("model.num_encoder_layers",)),
    (r"$N_{\mathrm{dec}}$", ("model.num_decoder_layers",)),
    (r"$d_{\mathrm{model}}$", ("model.d_model",)),
    (r"$d_{\mathrm{ff}}$", ("model.d_ff",)),
    (r"$h$", ("model.num_heads",)),
    (r"$d_k$", ("model.d_k",)),
    (r"$d_v$", ("model.d_v",)),
    (r"$P_{\mathrm{drop}}$", ("model.dropout_rate",)),
    (r"$\epsilon_{ls}$", ("training.label_smoothing",)),
    ("train steps", ("training.steps",)),
)

_NUMBER = re.compile(r"[+-]\d+(\.\d+)?")

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
    MODELS_MARK: r"$\dagger$",
}
_MARKS = {MARK: MARK, MODELS_MARK: r"{\dagger}"}


def latex(found: Sequence[TableSummary]) -> str:
    """Tables for the packages booktabs and graphicx."""
    head = "% Needs \\usepackage{booktabs} and \\usepackage{graphicx}.\n"
    return head + "\n".join(_table(table) for table in found)


def latex_escaped(words: str) -> str:
    """The words as LaTeX prints them literally."""
    return "".join(_SPECIAL.get(character, character) for character in words)


def _table(table: TableSummary) -> str:
    its_columns = list(_its_columns(table))
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
    sentences = [*table.method, *table.notes]
    sentences += [f"Missing: {one}" for one in table.unfinished]
    lines += [r"\par\smallskip\raggedright\footnotesize"] if sentences else []
    lines += [rf"{latex_escaped(sentence)}\par" for sentence in sentences]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _its_columns(table: TableSummary) -> Iterator[Column]:
    for column in columns(table):
        if column.title == "changes":
            yield from _changes(table)
        # The page is narrow: marks replace sentences, unless a diverged row has no mean to mark.
        elif not column.is_sentence or any(row.num_diverged for row in table.rows):
            yield column


def _changes(table: TableSummary) -> Iterator[Column]:
    """A column for each of the paper's settings that some row changes, and one for the rest."""
    runs = [row.outcomes[0].run for row in table.rows]
    configs = [flat_dict(run.config) for run in runs]
    changed = {key for run in runs for key in run.changes}
    for title, keys in _SETTINGS:
        is_one = all(len({config.get(key) for key in keys}) == 1 for config in configs)
        if is_one and changed.issuperset(keys):
            changed.difference_update(keys)
            yield Column(title, partial(_setting, keys))
    if changed:
        yield Column("changes", partial(_other_changes, changed), is_text=True)


def _setting(keys: Sequence[str], row: RowSummary) -> Cell:
    """As in the paper: all settings for the base row, only the changed ones for others."""
    run = row.outcomes[0].run
    is_shown = row.name == "base" or any(key in run.changes for key in keys)
    return Cell(str(flat_dict(run.config).get(keys[0], "")) if is_shown else "")


def _other_changes(keys: Set[str], row: RowSummary) -> Cell:
    changes = row.outcomes[0].run.changes
    return Cell(changes_text({key: value for key, value in changes.items() if key in keys}))


def _row(row: RowSummary, its_columns: Sequence[Column]) -> str:
    return _line([_cell(column.cell(row), column.is_text) for column in its_columns])


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _title(column: Column) -> str:
    if column.title.startswith("$"):
        return column.title
    return latex_escaped(column.title).replace(r"10\textasciicircum{}6", "$10^6$")


def _cell(cell: Cell, is_text: bool) -> str:
    text = latex_escaped(cell.text)
    if not is_text and _NUMBER.fullmatch(cell.text):
        text = f"${cell.text}$"  # a minus, not a hyphen
    # Zero width, so that digits align.
    return text + (rf"\rlap{{$^{_MARKS[cell.mark]}$}}" if cell.mark else "")
