"""Properties of every key of a model, including new ones."""

import dataclasses
import functools
from typing import get_args

import jax
import numpy as np
import pytest

from t2t_jax.devices import make_devices
from t2t_jax.model import masks
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.families import make_model, parameter_shapes
from tests.model.configs import (
    POSITION_CHANGES,
    POSITIONS,
    SMALL,
    logits_of,
    random_variables,
    run,
    small,
    some_ids,
)
from tests.model.probes import assert_packed_equals_alone, each_alone, packed, step_by_step

FIELDS = {field.name: field.type for field in dataclasses.fields(TransformerConfig)}
KINDS = ("family", "ensemble_size", "pooling", "dtype")  # tests of their own compare these
KEYS = [key for key in FIELDS if key not in KINDS]
# With what a key is read, where the small model does not read it.
READ_WITH = {
    "num_encoder_layers": {"family": "encoder_decoder"},
    "tied_embeddings": {"family": "encoder_decoder"},
    "max_positions": {"positions": "learned"},
    "relative_buckets": {"positions": "relative"},
    "relative_max_distance": {"positions": "relative"},
    "recurrent_cell": {"family": "recurrent"},
    "recurrent_attention": {"family": "recurrent"},
    "dropout_bits": {"dropout_rate": 0.1},
    "attention_kernel": {"dtype": "bfloat16", "d_k": 8, "d_v": 8},
    "num_classes": {"family": "encoder_only", "pooling": "cls"},
    "pooler_activation": {"family": "encoder_only", "pooling": "cls"},
}
# How parameters are drawn, and whether the same is computed twice.
NOT_IN_THE_LOGITS = ("attention_init", "embedding_init", "rematerialise")


def others(key, config=SMALL):
    """Other values of a key: all other choices, not so, or a larger number."""
    value = getattr(config, key)
    if choices := get_args(FIELDS[key]):
        return [choice for choice in choices if choice != value]
    if isinstance(value, bool):
        return [not value]
    return [value + (2 if isinstance(value, int) else 0.25)]


# Other tests go over all kinds of positions, which do not all go with other values of other keys.
ROUNDS = max(len(others(key)) for key in KEYS if key != "positions")


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(ROUNDS))
@pytest.mark.parametrize("family", ["encoder_decoder", "decoder_only"])
def test_with_every_key_another_cached_decoding_and_packing_change_nothing(family, turn):
    changes = {key: others(key)[turn % len(others(key))] for key in KEYS}
    changes |= {"positions": others("positions")[0], "family": family}
    changes |= {"num_encoder_layers": 2, "num_decoder_layers": 2}
    is_ensemble = family == "encoder_decoder" and turn == 0
    config = small(**changes, ensemble_size=2 if is_ensemble else 1)
    model = make_model(config)
    variables = random_variables(model)
    source, target = some_ids(2, 6).at[1, 4:].set(masks.PAD_ID), some_ids(2, 5, seed=1)
    inputs = (source, target) if family == "encoder_decoder" else (target,)
    stepwise, _ = step_by_step(model, variables, target, *inputs[:-1])
    logits = run(model, variables, *inputs)
    scale = max(1, np.abs(logits).max() / 10)  # without norms, logits are of hundreds
    np.testing.assert_allclose(stepwise, logits, atol=1e-4 * scale)

    sources, targets = ([[ids[0, :3], ids[0, 3:5]], [ids[1, :4]]] for ids in (source, target))
    rows = [packed(sequences, 6) for sequences in (sources, targets)]
    (source, source_packing), (target, target_packing) = rows
    actual = logits_of(model, variables, source, target, (source_packing, target_packing))
    alone = [each_alone(sequences, 6) for sequences in (sources, targets)]
    expected = run(model, variables, *alone[-len(inputs) :])
    assert_packed_equals_alone(actual, expected, targets, 1e-5 * scale)


@pytest.mark.parametrize(
    "changes",
    [
        {"family": "recurrent"},
        {"family": "encoder_only", "pooling": "query"},
        {"ensemble_size": 2},
        *POSITION_CHANGES,
    ],
    ids=str,
)
def test_every_matrix_can_be_cut_over_devices(changes):
    params = parameter_shapes(make_model(small(**changes)))
    layout = make_devices(data=1, fsdp=2, tensor=2).layout(params)
    for (path, leaf), cut in zip(
        jax.tree_util.tree_leaves_with_path(params), jax.tree.leaves(layout), strict=True
    ):
        is_vector = leaf.size == max(leaf.shape)
        assert is_vector or any(cut.spec), f"{jax.tree_util.keystr(path)} is not in _LAYOUT"


@pytest.mark.parametrize(
    "key, value",
    [(key, value) for key in KEYS if key not in NOT_IN_THE_LOGITS for value in others(key)],
)
def test_every_key_is_read(key, value):
    smallest = {"family": "decoder_only", "num_decoder_layers": 1}
    as_it_is = smallest | READ_WITH.get(key, {})
    changed = as_it_is | {key: value} | (POSITIONS[value] if key == "positions" else {})
    assert computation(small(**changed)) != computation(small(**as_it_is))


@functools.cache
def computation(config):
    model = make_model(config)
    ids = some_ids(2, 4)
    rngs = {"dropout": jax.random.key(0)}
    inputs = (ids, ids) if config.family in ("encoder_decoder", "recurrent") else (ids,)

    def logits(params):
        return model.apply({"params": params}, *inputs, deterministic=False, rngs=rngs)

    return str(jax.make_jaxpr(logits)(parameter_shapes(model)))


@pytest.mark.parametrize("key", [key for key in FIELDS if FIELDS[key] in (int, float)])
def test_no_number_is_below_zero(key):
    with pytest.raises(ValueError, match=rf"model\.{key}=-1"):
        small(**READ_WITH.get(key, {}) | {key: FIELDS[key](-1)})
