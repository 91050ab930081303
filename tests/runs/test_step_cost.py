"""The cost of an update, against a walk over the batches of an epoch."""

import numpy as np
import pytest

from t2t_jax.data.batches.batches import BucketedBatches, PackedBatches
from t2t_jax.data.batches.masking import Masking
from t2t_jax.data.vocabulary.vocabulary import PAD_ID, START_ID
from t2t_jax.devices import Devices, make_devices
from t2t_jax.runs.step_cost import measures_of, step_cost, target_tokens
from t2t_jax.training.operations import step_operations
from tests.data.splits import RANDOM_LENGTHS, split_of
from tests.model.configs import small
from tests.runs.configs import smallest

OPTIONS = {
    "source_tokens_per_batch": 600,
    "target_tokens_per_batch": 300,
    "row_multiple": 4,
    "seed": 0,
}


@pytest.mark.parametrize("padded_to", [1, 16])
@pytest.mark.parametrize("weights", [(1, 1), (1, 3)])
@pytest.mark.parametrize(
    ("kind", "options"),
    [(BucketedBatches, {"num_buckets": 3}), (PackedBatches, {"packed_length": 30})],
)
def test_it_is_the_mean_over_an_epoch(kind, options, weights, padded_to):
    split = split_of(RANDOM_LENGTHS, (200, len(RANDOM_LENGTHS)))
    batches = kind(split, weights=weights, padded_to=padded_to, **OPTIONS, **options)
    operations = step_operations(small())
    tokens = padded = 0
    for i in range(batches.batches_per_epoch):
        batch = batches[i]
        tokens += np.count_nonzero(batch.target_ids != PAD_ID)
        rows, source = batch.source_ids.shape
        padded += operations.of(rows, source, batch.target_ids.shape[1])
    alone = 0
    for number, (source, target) in enumerate(RANDOM_LENGTHS):
        alone += weights[number >= 200] * operations.of(1, source, target)
    found = step_cost(batches, small())
    expected = np.array([alone, padded]) / batches.batches_per_epoch
    assert found == pytest.approx(tuple(expected))
    assert target_tokens(batches) == pytest.approx(tokens / batches.batches_per_epoch)
    assert found.operations < found.padded_operations


def measured(cache, monkeypatch, peaks, memory=None):
    """What the metrics get of 500 target tokens a second on two devices, and of which batches."""
    monkeypatch.setattr("t2t_jax.peaks._PEAKS", peaks)
    monkeypatch.setattr(Devices, "peak_memory", lambda _: memory)
    sections = smallest(cache)
    batches = BucketedBatches(split_of(RANDOM_LENGTHS), num_buckets=3, **OPTIONS)
    return measures_of(batches, sections, make_devices(data=2))(500.0), batches, sections


def test_mfu_is_of_the_operations_without_padding_and_of_all_devices(tmp_path, monkeypatch):
    found, batches, sections = measured(tmp_path, monkeypatch, {"cpu": 1e9}, 3 * 2**29)
    operations = step_operations(sections.model)
    alone = sum(operations.of(1, source, target) for source, target in RANDOM_LENGTHS)
    tokens = sum(target for _, target in RANDOM_LENGTHS)
    assert found["mfu"] == pytest.approx(500 / tokens * alone / 2e9)
    assert found["peak_memory_gib"] == 1.5


def test_what_a_device_does_not_tell_is_left_out(tmp_path, monkeypatch):
    assert measured(tmp_path, monkeypatch, {"TPU v4": 275e12})[0] == {}


def test_of_masked_sentences_the_hidden_tokens_count():
    masking = Masking(rate=0.2, vocabulary_size=1_000, seed=3)
    lengths = [(length, length) for length, _ in RANDOM_LENGTHS]
    split = split_of(lengths)
    split.source_ids[split.source_offsets[:-1]] = START_ID
    options = OPTIONS | {"target_tokens_per_batch": 600, "num_buckets": 3}
    batches = BucketedBatches(split, masking=masking, **options)
    hidden = sum(
        np.count_nonzero(batches[i].target_ids != PAD_ID) for i in range(batches.batches_per_epoch)
    )
    assert target_tokens(batches) == pytest.approx(hidden / batches.batches_per_epoch)
    assert target_tokens(batches) < sum(n for n, _ in lengths) / batches.batches_per_epoch / 3
