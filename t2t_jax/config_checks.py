"""Shared by all config sections: checks of types, choices and bounds, with clear messages."""

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, dataclass_transform, get_args, get_origin, no_type_check

Section = TypeVar("Section")

_LARGEST = 2**31 - 1  # JAX's integers have 32 bits


@dataclass_transform(frozen_default=True, kw_only_default=True)
def config_section(section: type[Section]) -> type[Section]:
    """Makes a frozen keyword-only dataclass, whose `__post_init__` begins with `check_types`.

    Exempt from the type checks that tests add to every call: a wrong type gets our own message.
    """
    return no_type_check(dataclasses.dataclass(frozen=True, kw_only=True)(section))


def check_types(section: str, config: Any) -> None:
    """Checks every field of a frozen dataclass against its annotation; an int for a float is cast.

    Raises:
      TypeError: a value has another type.
      ValueError: a value is none of the choices of a `Literal`, or too large a number.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if get_origin(field.type) is Literal:
            if value not in get_args(field.type):
                allowed = ", ".join(map(repr, get_args(field.type)))
                raise ValueError(f"{section}.{field.name}={value!r} is not one of {allowed}")
        elif field.type is float and type(value) is int:
            object.__setattr__(config, field.name, float(value))
        elif type(value) is not field.type:
            wanted = getattr(field.type, "__name__", field.type)
            raise TypeError(
                f"{section}.{field.name}={value!r} is of type {type(value).__name__}, "
                f"it must be {wanted}"
            )
        elif field.type is int and abs(value) > _LARGEST:
            raise ValueError(f"{section}.{field.name}={value} must be at most {_LARGEST}")
        elif field.type is str and not _is_unicode(value):
            raise ValueError(f"{section}.{field.name}={value!r} is not valid UTF-8")


def _is_unicode(text: str) -> bool:
    """Whether a text can be written; one typed in another encoding cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_at_least(section: str, config: Any, least: int, names: Iterable[str]) -> None:
    """Raises ValueError unless the fields `names` are at least `least`."""
    for name in names:
        if not getattr(config, name) >= least:
            raise ValueError(f"{section}.{name}={getattr(config, name)} must be at least {least}")


def check_above_zero(section: str, config: Any, names: Iterable[str]) -> None:
    """Raises ValueError unless the fields `names` are above 0 and finite."""
    for name in names:
        if not 0 < getattr(config, name) < float("inf"):
            raise ValueError(f"{section}.{name}={getattr(config, name)} must be above 0 and finite")


def check_rates(section: str, config: Any, names: Iterable[str]) -> None:
    """Raises ValueError unless the fields `names` are in [0, 1)."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{section}.{name}={getattr(config, name)} must be in [0, 1)")
