"""Batches by number, on every host alike: bucketed by length, or packed.

    batches = BucketedBatches(split, ...)    pairs of similar lengths, one per row, a few shapes
    batches = PackedBatches(split, ...)      several pairs per row, one shape
    batches[i]                               batch i, a function of (split, seed, i)

For tasks on single sentences, one side of a pair is empty or a number.
"""

from t2t_jax.data.batches.assembling import Batch, BatchShape
from t2t_jax.data.batches.bucketed_batches import BucketedBatches
from t2t_jax.data.batches.epochs import Batches
from t2t_jax.data.batches.packed_batches import PackedBatches

__all__ = ["Batch", "BatchShape", "Batches", "BucketedBatches", "PackedBatches"]
