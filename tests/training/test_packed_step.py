"""Packed and bucketed batches train alike: loss and gradients of all pairs are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.batches.batches import BucketedBatches, PackedBatches
from t2t_jax.data.batches.masking import Masking
from t2t_jax.data.prepare.prepared import PreparedSplit
from t2t_jax.data.vocabulary.vocabulary import END_ID, MASK_ID, START_ID
from t2t_jax.model.families import make_model
from t2t_jax.model.masks import packing_of
from t2t_jax.training.loss import make_loss_fn, shift_right
from tests.model.configs import POSITIONS, logits_of, random_variables, small

RNG = np.random.default_rng(0)
NUM_PAIRS = 17
OPTIONS = {
    "source_tokens_per_batch": 400,
    "target_tokens_per_batch": 400,
    "row_multiple": 1,
    "seed": 0,
}


def sentences(opening=()):
    return [
        [*opening, *RNG.integers(MASK_ID + 1, 11, RNG.integers(1, 7)), END_ID]
        for _ in range(NUM_PAIRS)
    ]


def split_of(sources, targets):
    arrays = []
    for side in (sources, targets):
        ids = np.array([token for sentence in side for token in sentence], np.uint16)
        arrays += [ids, np.cumsum([0, *map(len, side)])]
    return PreparedSplit(*arrays)


TEXTS = sentences(opening=[START_ID])
SPLITS = {
    "encoder_decoder": split_of(sentences(), sentences()),
    "decoder_only": split_of([[]] * NUM_PAIRS, sentences()),
    "encoder_only": split_of(TEXTS, TEXTS),
}


def both_batches(family):
    """One batch of all pairs, several of them in a row, and one with a row for each."""
    masking = Masking(0.3, 11, seed=0) if family == "encoder_only" else None
    options = {**OPTIONS, "masking": masking}
    packed = PackedBatches(SPLITS[family], packed_length=20, **options)
    bucketed = BucketedBatches(SPLITS[family], num_buckets=1, **options)
    assert packed.batches_per_epoch == bucketed.batches_per_epoch == 1
    assert packed.shapes[0].rows < NUM_PAIRS / 2 and bucketed.shapes[0].rows == NUM_PAIRS
    return packed[0], bucketed[0]


def model_and_params(**changes):
    # Without biases: the gradient of the keys' bias is nothing but rounding noise.
    model = make_model(small(attention_biases=False, **changes))
    return model, random_variables(model)["params"]


CASES = [
    ("encoder_decoder", "sinusoidal", 0),
    ("encoder_decoder", "learned", 16),
    ("encoder_decoder", "rotary", 0),
    ("encoder_decoder", "relative", 0),
    ("encoder_decoder", "alibi", 0),
    ("decoder_only", "learned", 16),
    ("encoder_only", "relative", 0),
]


@pytest.mark.parametrize(("family", "positions", "tokens_per_chunk"), CASES)
def test_loss_and_gradients_are_those_of_a_row_for_each_pair(family, positions, tokens_per_chunk):
    changes = {"positions": positions, "num_decoder_layers": 1, **POSITIONS[positions]}
    model, params = model_and_params(family=family, **changes)
    loss_fn = make_loss_fn(model, 0.1, tokens_per_chunk)
    loss_and_grads = jax.jit(jax.value_and_grad(lambda p, b: loss_fn(p, b, None), has_aux=True))
    packed, bucketed = both_batches(family)
    ((loss, metrics), grads), ((expected, expected_metrics), expected_grads) = (
        loss_and_grads(params, batch) for batch in (packed, bucketed)
    )
    assert metrics.tokens == expected_metrics.tokens > 0
    np.testing.assert_allclose(metrics, expected_metrics, rtol=1e-5)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max()),
        jax.device_get(grads),
        jax.device_get(expected_grads),
    )


def with_other_words(ids, place):
    return jnp.where(place & (ids > MASK_ID), MASK_ID + 11 - ids, ids)


@pytest.mark.parametrize("family", ["encoder_decoder", "decoder_only", "encoder_only"])
def test_another_pair_in_the_row_changes_no_logits(family):
    model, params = model_and_params(family=family, num_decoder_layers=1)
    batch, _ = both_batches(family)

    @jax.jit
    def logits(batch):
        inputs = shift_right(batch.target_ids, batch.target_segments)
        packings = (packing_of(batch.source_segments), packing_of(batch.target_segments))
        return logits_of(model, {"params": params}, batch.source_ids, inputs, packings)

    batch = jax.tree.map(jnp.asarray, batch)
    segments = batch.target_segments
    changed = batch._replace(
        source_ids=with_other_words(batch.source_ids, batch.source_segments == 2),
        target_ids=with_other_words(batch.target_ids, batch.target_segments == 2),
    )
    difference = np.abs(logits(batch) - logits(changed)).max(axis=-1)
    segments = np.asarray(batch.target_segments)
    assert difference[segments == 2].max() > 1e-2
    assert difference[(segments != 2) & (segments > 0)].max() < 1e-6


def test_each_pair_begins_with_the_start_token_and_counts_from_nought():
    batch, _ = both_batches("encoder_decoder")
    target_ids, segments = jnp.asarray(batch.target_ids), jnp.asarray(batch.target_segments)
    inputs, positions = shift_right(target_ids, segments), packing_of(segments).positions
    for row, row_segments in enumerate(batch.target_segments):
        for t, segment in enumerate(row_segments):
            if segment == 0:
                assert positions[row, t] == 0
                continue
            before = [u for u in range(t) if row_segments[u] == segment]
            assert positions[row, t] == len(before)
            expected = batch.target_ids[row, t - 1] if before else START_ID
            assert inputs[row, t] == expected
