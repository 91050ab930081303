"""Names of the arrays in a tree."""

from collections.abc import Sequence

import jax

_TOLD = 3


def path_name(path: tuple) -> str:
    """A path in a tree as text, such as params/embedding/table."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def first_few(names: Sequence[str]) -> str:
    """The first names, and how many more there are; empty if there are none."""
    more = len(names) - _TOLD
    return ", ".join(names[:_TOLD]) + (f" and {more} more" if more > 0 else "")
