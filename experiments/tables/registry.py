"""The tables there are, by the name typed on the command line: every file here that has a TABLE."""

import importlib
import pkgutil

from experiments import tables
from experiments.tables.ablation import Table

_FILES = {
    file.name: importlib.import_module(f"{tables.__name__}.{file.name}")
    for file in pkgutil.iter_modules(tables.__path__)
}
TABLES: dict[str, Table] = {
    name: file.TABLE for name, file in _FILES.items() if hasattr(file, "TABLE")
}


def find_table(name: str) -> Table:
    """The table of this name.

    Raises:
      ValueError: there is none.
    """
    if name not in TABLES:
        raise ValueError(f"no table is called {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name]
