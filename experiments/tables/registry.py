"""The tables there are, by the name typed on the command line."""

from experiments.tables import (
    depth,
    discrepancies,
    heads,
    positions,
    quickstart,
    recurrent,
    table2,
    table3,
)
from experiments.tables.ablation import Table

_TABLES = (
    quickstart.TABLE,
    table2.TABLE,
    table3.TABLE,
    positions.TABLE,
    heads.TABLE,
    depth.TABLE,
    recurrent.TABLE,
    discrepancies.TABLE,
)
TABLES: dict[str, Table] = {table.name: table for table in _TABLES}


def find_table(name: str) -> Table:
    """The table of this name.

    Raises:
      ValueError: there is none.
    """
    if name not in TABLES:
        raise ValueError(f"no table is called {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name]
