"""The cost of batches, measured on few pairs."""

from experiments.benchmarks.batch_speed import planning, wmt_like_split
from t2t_jax.data.batches.batches import BucketedBatches, PackedBatches

OPTIONS = {
    "source_tokens_per_batch": 4_000,
    "target_tokens_per_batch": 4_000,
    "row_multiple": 1,
    "seed": 0,
}


def test_packed_batches_have_less_padding_than_bucketed_ones():
    split = wmt_like_split(3_000)
    bucketed = planning(lambda: BucketedBatches(split, num_buckets=8, **OPTIONS))
    packed = planning(lambda: PackedBatches(split, packed_length=256, **OPTIONS))
    assert bucketed["shapes"] == 8 and packed["shapes"] == 1
    assert 0.7 < bucketed["non_padding_share"] < 0.9 < packed["non_padding_share"]
    for measured in (bucketed, packed):
        assert measured["fed_batches_a_second"] > 0
        assert 0 <= measured["megabytes_of_plan"] <= measured["megabytes_at_peak"]
