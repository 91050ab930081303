"""Batches by number, on every host alike: bucketed by length, or packed.

    batches = BucketedBatches(split, ...)    pairs of similar lengths, one in a row, a few shapes
    batches = PackedBatches(split, ...)      several pairs in a row, one shape
    batches[i]                               batch i, a function of (split, seed, i)

Where a task has sentences and not pairs of them, one side of a pair is nothing or a number.
"""

from t2t_jax.data.batches.assembling import Batch, BatchShape
from t2t_jax.data.batches.bucketed_batches import BucketedBatches
from t2t_jax.data.batches.epochs import Batches
from t2t_jax.data.batches.packed_batches import PackedBatches

__all__ = ["Batch", "BatchShape", "Batches", "BucketedBatches", "PackedBatches"]
