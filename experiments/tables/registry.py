"""The tables there are, by the name typed on the command line: every file here that has a TABLE.

A file that cannot be read is told to who asks for its table, and is in nobody else's way.
"""

import importlib
import pkgutil
import traceback
from pathlib import Path
from typing import NamedTuple

from experiments import tables
from experiments.tables.ablation import Table


class Found(NamedTuple):
    """The tables of a folder, by name."""

    tables: dict[str, Table]
    broken: dict[str, str]  # a sentence for each file that gives none, though it ought to


def read_tables() -> Found:
    """Every file of this folder."""
    found = Found({}, {})
    for file in pkgutil.iter_modules(tables.__path__):
        name, path = file.name, f"experiments/tables/{file.name}.py"
        try:
            module = importlib.import_module(f"{tables.__name__}.{name}")
        except Exception as error:  # whatever somebody's file may raise
            found.broken[name] = f"{path} cannot be read: {_text(error, path)}"
            continue
        if not hasattr(module, "TABLE"):
            continue
        if not isinstance(module.TABLE, Table):
            found.broken[name] = f"the TABLE of {path} must be a Table"
        elif module.TABLE.name != name:
            found.broken[name] = (
                f"the table of {path} is called {module.TABLE.name!r}: it must have the name of "
                f"its file, {name!r}"
            )
        else:
            found.tables[name] = module.TABLE
    return found


def _text(error: Exception, path: str) -> str:
    """Kind, message and line of what a file raised."""
    places = traceback.extract_tb(error.__traceback__)
    lines = [place.lineno for place in places if Path(place.filename).name == Path(path).name]
    where = f", line {lines[-1]}" if lines else ""  # of a syntax error the message has it
    message = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {message}{where}"


TABLES, BROKEN = read_tables()


def find_table(name: str) -> Table:
    """The table of this name.

    Raises:
      ValueError: there is none, or its file is broken.
    """
    if name in BROKEN:
        raise ValueError(BROKEN[name])
    if name not in TABLES:
        raise ValueError(f"no table is called {name!r}; there are {names_text()}")
    return TABLES[name]


def names_text() -> str:
    """The names of all tables, and of those that are broken why."""
    return "; ".join([", ".join(TABLES), *BROKEN.values()])
