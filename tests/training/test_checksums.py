"""Checksums of arrays: what they detect, and what they do not depend on."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from t2t_jax.devices import make_devices
from t2t_jax.training.checksums import checksums


def sum_of(array):
    return checksums({"a": array}).sums["a"]


def by_hand(array):
    """The two sums, word by word, in Python's integers."""
    first = second = 0
    for place, word in enumerate(array.view(np.uint32).ravel().tolist()):
        mixed = word ^ (place * 0x9E3779B1 % 2**32)
        mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B % 2**32
        mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 % 2**32
        mixed ^= mixed >> 16
        first, second = first + mixed, second + mixed * (2 * place + 1)
    return f"{first % 2**32:08x}{second % 2**32:08x}"


def test_it_is_the_sums_of_its_words():
    array = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    assert sum_of(array) == by_hand(array)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, ml_dtypes.bfloat16, np.int8])
def test_every_flipped_bit_is_seen(dtype):
    array = np.arange(6).astype(dtype).reshape(2, 3)
    before = {sum_of(array)}
    for bit in range(8 * array.nbytes):
        damaged = array.copy()
        damaged.view(np.uint8).ravel()[bit // 8] ^= 1 << bit % 8
        before.add(sum_of(damaged))
    assert len(before) == 1 + 8 * array.nbytes


def test_what_changes_places_is_seen():
    array = np.array([1.0, -1.0, 2.0, 1.0, 0.0, -0.0], np.float32)
    found = {sum_of(array)}
    for i in range(6):
        for j in range(i):
            swapped = array.copy()
            swapped[[i, j]] = swapped[[j, i]]
            found.add(sum_of(swapped))
    assert len(found) == 1 + 14  # the two ones are the same


@pytest.mark.parametrize(
    "layout", [dict(data=8), dict(data=2, fsdp=2, tensor=2), dict(data=1, fsdp=8)]
)
def test_it_is_the_same_on_any_devices(layout):
    rng = np.random.default_rng(0)
    tree = {
        "params": {
            "table": rng.normal(size=(16, 8)),
            "query": {"kernel": rng.normal(size=(8, 2, 3))},
        }
    }
    tree = jax.tree.map(np.float32, tree)
    assert checksums(make_devices(**layout).put(tree)) == checksums(tree)


def test_it_is_told_where_a_number_is_none():
    tree = {"a": jnp.ones(3), "b": {"c": jnp.array([1.0, jnp.nan]), "d": jnp.array(-jnp.inf)}}
    found = checksums(tree | {"e": jnp.array(3)})
    assert found.not_finite == ["b/c", "b/d"]
    assert found.sums.keys() == {"a", "b/c", "b/d", "e"}
