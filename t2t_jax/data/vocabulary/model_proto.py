"""Just enough of protocol buffers to read fields of a SentencePiece model and remove them.

A message is a sequence of fields: number and wire type in one varint, then the value. A field is
identified by its path of numbers, as in SentencePiece's `sentencepiece_model.proto`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

TRAINER_MODEL_TYPE = (2, 3)
TRAINER_INPUT_FORMAT = (2, 7)
NORMALIZER_RULES_FILE = (3, 6)

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


class _Field(NamedTuple):
    number: int
    value: int | bytes
    start: int  # in the message, its tag included
    stop: int


def value(message: bytes, path: Sequence[int]) -> int | bytes | None:
    """The value of a field; None if it is not set."""
    found = None
    for field in _fields(message):
        if field.number == path[0]:
            found = field.value
    if len(path) == 1 or found is None:
        return found
    assert isinstance(found, bytes)
    return value(found, path[1:])


def without(message: bytes, path: Sequence[int]) -> bytes:
    """The message without a field, as if never set."""
    parts = []
    for field in _fields(message):
        if field.number != path[0]:
            parts.append(message[field.start : field.stop])
        elif len(path) > 1:
            assert isinstance(field.value, bytes)
            inner = without(field.value, path[1:])
            parts.append(_varint(field.number << 3 | _BYTES) + _varint(len(inner)) + inner)
    return b"".join(parts)


def _fields(message: bytes) -> Iterator[_Field]:
    stop = 0
    while stop < len(message):
        start = stop
        tag, stop = _read_varint(message, stop)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            content, stop = _read_varint(message, stop)
        else:
            if wire_type == _BYTES:
                num_bytes, stop = _read_varint(message, stop)
            else:
                num_bytes = {_FIXED_64: 8, _FIXED_32: 4}[wire_type]
            content = message[stop : stop + num_bytes]
            stop += num_bytes
        yield _Field(number, content, start, stop)


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[position]
        position += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, position


def _varint(number: int) -> bytes:
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
