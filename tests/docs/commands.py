"""The commands that README, docs and docstrings tell the reader to run."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
# What begins a command of ours.
_OURS = r"(?:t2t-jax |python -m experiments\.|make )"


class Typed(NamedTuple):
    """A command as it stands somewhere, on one line, without its comment."""

    place: str
    text: str


def documents() -> list[Path]:
    """README and docs; the log tells what was typed once."""
    return [
        path
        for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
        if path.name != "LOG.md"
    ]


def of_documents() -> list[Typed]:
    """The commands in blocks, and those between backticks that have an argument."""
    found = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for typed in [*_of_blocks(text), *re.findall(rf"`({_OURS}[^`]+=[^`]+)`", text)]:
            found.append(Typed(path.name, typed))
    return found


def of_docstrings() -> list[Typed]:
    """The commands in the docstrings of the modules that a person starts or reads as a config."""
    found = []
    for folder in ("configs", "experiments", "t2t_jax/cli"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            if path.parent.name == "launchers":  # which no person starts
                continue
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            for typed in _of_blocks(docstring):
                found.append(Typed(str(path.relative_to(REPOSITORY)), typed))
    return found


def _of_blocks(text: str) -> list[str]:
    joined = text.replace("\\\n", " ")
    lines = re.findall(rf"^    ({_OURS}.*)$", joined, re.MULTILINE)
    # What follows after a gap explains, unless it is a flag.
    return [re.split(r"\s+#|\s{3,}(?=[^-\s])", line)[0].strip() for line in lines]
