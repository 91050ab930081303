"""The tables there are, by the name typed on the command line."""

from experiments import architectures, discrepancies, quickstart, table3
from experiments.ablation import Table

_TABLES = (table3.TABLE, quickstart.TABLE, discrepancies.TABLE, architectures.TABLE)
TABLES: dict[str, Table] = {table.name: table for table in _TABLES}


def find_table(name: str) -> Table:
    """The table of this name.

    Raises:
      ValueError: there is none.
    """
    if name not in TABLES:
        raise ValueError(f"no table is called {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name]
