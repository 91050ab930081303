"""A page per row: the sample sentences of its table on their way through its model.

In: summaries, and their runs. Out: explain.html in the directories of the runs.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.report.run_files import PAGE
from experiments.report.samples import WHY_NONE, first_seeds
from experiments.report.summary import TableSummary
from experiments.run.plain_text import plain_text
from t2t_jax.json_files import write_bytes

# Each takes some seconds to compile, once per length.
MOST_SENTENCES = 2


def write_pages(found: Sequence[TableSummary], log: Callable[[str], None]) -> list[Path]:
    """Writes the page of each row's first finished seed; returns the files written.

    The sentences are the first of the table's samples; a table without samples has no pages. What
    has none is logged, and the others are still written.
    """
    # Here: JAX takes seconds to load.
    from t2t_jax.explain.explained import explain
    from t2t_jax.explain.page import page
    from t2t_jax.runs.workdir import load_trained

    paths = []
    for table in found:
        sources = [sample.source for sample in table.samples[:MOST_SENTENCES]]
        if not sources:
            unasked = "; unless that is the embedded one, --samples=N asks for sentences"
            log(f"{table.name} has no pages: {WHY_NONE}{unasked}")
        for row in table.rows:
            for outcome in first_seeds(row.outcomes) if sources else ():
                try:
                    trained = load_trained(outcome.directory)
                    documents = [[explain(trained, text, label=row.name)] for text in sources]
                except (OSError, TypeError, ValueError) as error:
                    log(plain_text(f"{row.name} has no page: {error}"))
                    continue
                path = outcome.directory / PAGE
                write_bytes(path, page(documents).encode())
                paths.append(path)
    return paths
