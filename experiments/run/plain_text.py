"""Text as it may be shown: of what came out of a file no terminal, page or typesetter obeys it."""

from typing import Any


def plain_text(text: object) -> str:
    r"""The text in one line; what is not printable, such as "\x1b", is written as its escape."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(text))


def counted(number: int, noun: str) -> str:
    """ "1 run", "2 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain_values(values: Any) -> Any:
    """JSON values with every string in them, keys too, as `plain_text`."""
    if isinstance(values, dict):
        return {plain_text(key): plain_values(value) for key, value in values.items()}
    if isinstance(values, list):
        return [plain_values(value) for value in values]
    return plain_text(values) if isinstance(values, str) else values
