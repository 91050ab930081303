"""Text that is safe to show: no terminal, page or typesetter obeys what came from a file."""

from typing import Any

from t2t_jax.json_files import error_text


def plain_text(text: object) -> str:
    r"""The text in one line; unprintable characters, such as "\x1b", become escapes."""
    words = error_text(text) if isinstance(text, BaseException) else str(text)
    if words.isprintable():
        return words
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in words)


def counted(number: int, noun: str) -> str:
    """ "1 run", "2 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain_values(values: Any) -> Any:
    """JSON values with `plain_text` applied to every string, keys included."""
    if isinstance(values, dict):
        return {plain_text(key): plain_values(value) for key, value in values.items()}
    if isinstance(values, list):
        return [plain_values(value) for value in values]
    return plain_text(values) if isinstance(values, str) else values
