"""Makes the batches of a prepared corpus as configured, for training and for scoring."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_jax.data.batches.batches import (
    Batch,
    Batches,
    BatchShape,
    BucketedBatches,
    PackedBatches,
)
from t2t_jax.data.batches.epochs import multiple, row_multiple_of
from t2t_jax.data.batches.masking import Masking
from t2t_jax.data.config import DataConfig
from t2t_jax.data.prepare.prepared import Prepared, PreparedSplit
from t2t_jax.devices import Devices
from t2t_jax.runs.sections import Sections

# Seeds the masks of dev and test: the same for every run.
_EVALUATION_SEED = 0


def train_batches(
    prepared: Prepared, sections: Sections, devices: Devices, microbatches: int = 1
) -> Batches:
    """Endless batches of train, epoch after epoch, in an order given by the config's seed.

    Each is sharded over the devices, and there split into `microbatches`; the pairs in a batch do
    not depend on their number.

    Raises:
      ValueError: a sentence is too long for a batch.
    """
    data = sections.data
    weights = tuple(weight for _, weight in data.corpora) or (1,)
    options: dict[str, Any] = _options(prepared, sections, devices, sections.seed)
    options["weights"] = weights
    options["padded_to"] *= microbatches
    train = prepared.splits["train"]
    match data.batching:
        case "bucketed":
            return _bucketed(train, sections, options)
        case "packed":
            return PackedBatches(train, packed_length=data.packed_length, row_multiple=1, **options)


def evaluation_batches(
    prepared: Prepared, split: str, sections: Sections, devices: Devices
) -> Batches:
    """Batches whose first epoch holds every pair of the split once, grouped by shape.

    Raises:
      ValueError: a sentence is too long for a batch.
    """
    options = _options(prepared, sections, devices, _EVALUATION_SEED)
    options["weights"] = (1,) * len(prepared.splits[split].ends)
    return _bucketed(prepared.splits[split], sections, {"shuffle": False, **options})


def check_lengths(prepared: Prepared, sections: Sections, devices: Devices) -> None:
    """Checks, before training, that no sentence is too long to be trained on or scored.

    `train_batches` finds sentences that fit in no batch of train.

    Raises:
      ValueError: one has more tokens than there are learned positions, or than fit in a batch.
    """
    for name, split in prepared.splits.items():
        if name != "train":
            try:
                evaluation_batches(prepared, name, sections, devices)
            except ValueError as error:
                raise ValueError(f"{name}, of which no sentence is left out: {error}") from error
        sides = zip(
            (split.source_lengths.max(), split.target_lengths.max()),
            _length_multiples(sections.data),
            strict=True,
        )
        longest = max(multiple(length, of) for length, of in sides)
        most = sections.model.longest_sequence
        if most is not None and longest > most:
            of = sections.data.length_multiple
            rounded = f", in multiples of data.length_multiple={of}" if of > 1 else ""
            raise ValueError(
                f"model.max_positions={most} is less than the {longest} tokens of a sentence of "
                f"{name}{rounded}; learned positions need as many"
            )


def describe(batches: Batches) -> str:
    """The length of an epoch, the shapes of its batches, and their share of padding, in words."""
    sides = "source + target" if batches.shapes[0].source_length else "target"
    shapes = ", ".join(
        f"{rows} x ({source} + {target})" if source else f"{rows} x {target}"
        for rows, source, target in batches.shapes
    )
    num_batches = batches.batches_per_epoch
    return (
        f"an epoch is {num_batches:,} batch{'' if num_batches == 1 else 'es'}; "
        f"{batches.non_padding_share:.1%} of their places are tokens, the rest padding; shapes, "
        f"rows x ({sides}): {shapes}"
    )


def describe_cut(batches: Batches, devices: Devices, microbatches: int) -> str:
    """How the tokens of an update are split over devices and microbatches, in words."""
    rows = len(largest_batches(batches)[0].source_ids)
    sizes = [(each.source_ids.size, each.target_ids.size) for each in empty_batches(batches)]
    sides = [f"{size:,}" for size in map(max, zip(*sizes, strict=True)) if size]
    num_rows = rows // (devices.num_data * microbatches)
    most = max(batches.num_empty_rows)
    empty = (
        f"; up to {most} rows of a full batch are empty, for all parts to be equal" if most else ""
    )
    return (
        f"an update is at most {' + '.join(sides)} tokens, padding included: devices "
        f"{devices.num_data} x microbatches {microbatches} x rows {num_rows}{empty}"
    )


def largest_batches(batches: Batches) -> list[Batch]:
    """Empty batches, one of which needs the most memory: the one with most cells, and the longest.

    Attention weights grow with the square of the length, so among batches with equally many cells
    the longest has most; ties are resolved in the order of `empty_batches`.
    """
    by_cells = empty_batches(batches)
    longest = max(by_cells, key=lambda each: each.source_ids.shape[1] + each.target_ids.shape[1])
    return [by_cells[0], *([longest] if longest is not by_cells[0] else [])]


def empty_batches(batches: Batches) -> list[Batch]:
    """An empty batch of each shape, the one with most cells first."""
    by_cells = sorted(
        batches.shapes, key=lambda shape: shape[0] * (shape[1] + shape[2]), reverse=True
    )
    is_packed = isinstance(batches, PackedBatches)
    return [empty_batch(shape, is_packed=is_packed) for shape in by_cells]


def empty_batch(shape: BatchShape, *, is_packed: bool) -> Batch:
    """A batch of padding alone."""
    rows, source, target = shape
    sides = np.zeros((rows, source), np.int32), np.zeros((rows, target), np.int32)
    return Batch(*sides, *(sides if is_packed else ()))


def _bucketed(
    split: PreparedSplit, sections: Sections, options: Mapping[str, Any]
) -> BucketedBatches:
    data = sections.data
    budgets = data.source_tokens_per_batch, data.target_tokens_per_batch
    longest = int(split.source_lengths.max()), int(split.target_lengths.max())
    source, target = map(multiple, longest, options["length_multiples"])
    row_multiple = row_multiple_of(budgets, (source, target))
    return BucketedBatches(
        split, num_buckets=data.num_buckets, row_multiple=row_multiple, **options
    )


def _options(prepared: Prepared, sections: Sections, devices: Devices, seed: int) -> dict[str, Any]:
    """The arguments of both kinds of batches; `seed` gives the masks and the order."""
    masking = None
    if sections.data.task == "masked_language_modelling":
        masking = Masking(sections.data.mask_rate, prepared.vocabulary.size, seed)
    return {
        "source_tokens_per_batch": sections.data.source_tokens_per_batch,
        "target_tokens_per_batch": sections.data.target_tokens_per_batch,
        "length_multiples": _length_multiples(sections.data),
        "padded_to": devices.num_data,
        "part": devices.part,
        "num_parts": devices.num_parts,
        "seed": seed,
        "masking": masking,
    }


def _length_multiples(data: DataConfig) -> tuple[int, int]:
    """Multiples for the lengths of source and target; a class always has length 1."""
    of = data.length_multiple
    return of, 1 if data.task == "classification" else of
