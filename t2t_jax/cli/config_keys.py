"""Every config key with its comment, read from configs/base.py: for --help and for typos.

The file is read as text, since only a checkout has it: an installed wheel has no configs.
"""

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_BASE = Path("configs/base.py")
_WIDTH, _COMMENT_COLUMN = 100, 42


class Key(NamedTuple):
    """A key of a config."""

    section: str  # "" for a key outside the sections
    name: str
    value: str  # in the paper's base, as Python writes it
    comment: str  # its meaning, unit and choices

    @property
    def path(self) -> str:
        """As written after --config."""
        return f"{self.section}.{self.name}".lstrip(".")


def config_keys() -> list[Key]:
    """The keys in order; none without a checkout."""
    if not _BASE.exists():
        return []
    source = _BASE.read_text("utf-8")
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    keys = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[-1], ast.Attribute):
            continue
        owner, value = ast.unparse(node.targets[-1].value), ast.unparse(node.value)
        if value == "ConfigDict()":
            continue
        first = node.lineno
        while first - 1 in comments and source.split("\n")[first - 2].lstrip().startswith("#"):
            first -= 1
        comment = " ".join(
            comments[line] for line in range(first, node.lineno + 1) if line in comments
        )
        keys.append(Key("" if owner == "config" else owner, node.targets[-1].attr, value, comment))
    return keys


def help_text(section: str = "", is_read: Callable[[str], bool] = lambda path: True) -> str:
    """The keys of one section, or of all, that are read.

    Raises:
      ValueError: there is no such section.
    """
    keys = config_keys()
    if not keys:
        return f"The keys of a config stand in {_BASE} of a checkout of the code.\n"
    sections = list(dict.fromkeys(key.section for key in keys))
    if section and section not in sections:
        raise ValueError(f"--help={section} is none of {', '.join(filter(None, sections))}")
    shown = [key for key in keys if section in ("", key.section) and is_read(key.path)]
    if not shown:
        return f"No key of {section} is read here.\n"
    blocks = [
        "\n".join(_line(key) for key in shown if key.section == each)
        for each in dict.fromkeys(key.section for key in shown)
    ]
    return f"Keys, with the value of {_BASE}:\n\n" + "\n\n".join(blocks) + "\n"


def _line(key: Key) -> str:
    head = f"  --config.{key.path}={key.value.replace(chr(39), chr(34))}"
    head = re.sub(r'="(\S+)"$', r"=\1", head)
    lines = textwrap.wrap(key.comment, _WIDTH - _COMMENT_COLUMN, break_on_hyphens=False)
    if len(head) < _COMMENT_COLUMN - 1 and lines:
        head = head.ljust(_COMMENT_COLUMN) + lines.pop(0)
    return "\n".join([head, *(" " * _COMMENT_COLUMN + line for line in lines)])
