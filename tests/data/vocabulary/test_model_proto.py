"""Protocol buffers, spelled out byte by byte."""

import pytest

from t2t_jax.data.vocabulary import model_proto

# Field 1: 300; 2: {3: 4, 7: b"tsv", 18: b"\x01" * 200}; 1 again: 5; 4: 32 bits; 6: 64 bits.
INNER = b"\x18\x04" + b"\x3a\x03tsv" + b"\x92\x01\xc8\x01" + b"\x01" * 200
OUTER = (
    b"\x08\xac\x02"
    + (b"\x12\xd3\x01" + INNER)
    + b"\x08\x05"
    + (b"\x25" + b"\x01\x02\x03\x04")
    + (b"\x31" + b"\x01" * 8)
)


def test_the_last_value_of_a_field_counts():
    assert len(INNER) == 0x53 + 128
    assert model_proto.value(OUTER, (1,)) == 5
    assert model_proto.value(OUTER, (2,)) == INNER
    assert model_proto.value(OUTER, (4,)) == b"\x01\x02\x03\x04"
    assert model_proto.value(OUTER, (6,)) == b"\x01" * 8


def test_fields_of_fields_are_found_by_their_path():
    assert model_proto.value(OUTER, (2, 3)) == 4
    assert model_proto.value(OUTER, (2, 7)) == b"tsv"
    assert model_proto.value(OUTER, (2, 18)) == b"\x01" * 200


@pytest.mark.parametrize("path", [(3,), (3, 1), (2, 4)])
def test_what_is_not_set_is_none(path):
    assert model_proto.value(OUTER, path) is None
    assert model_proto.without(OUTER, path) == OUTER


def test_a_field_is_cut_out_and_its_message_gets_shorter():
    # 206 bytes are left of 211.
    inner = INNER.replace(b"\x3a\x03tsv", b"")
    assert model_proto.without(OUTER, (2, 7)) == OUTER.replace(
        b"\x12\xd3\x01" + INNER, b"\x12\xce\x01" + inner
    )
    assert model_proto.without(OUTER, (1,)) == OUTER[3:].replace(b"\x08\x05", b"")
