"""The batches a config makes of a prepared corpus, to train on and to score every sentence."""

from typing import Any

from t2t_jax.cli.sections import Sections
from t2t_jax.data.batches import Batches, BucketedBatches, PackedBatches
from t2t_jax.data.masking import Masking
from t2t_jax.data.prepared import Prepared
from t2t_jax.devices import Devices

# Of the masks that dev and test are scored with: the same for every run.
_EVALUATION_SEED = 0


def train_batches(prepared: Prepared, sections: Sections, devices: Devices) -> Batches:
    """Batches of train without end, epoch after epoch, in an order made of the config's seed.

    Raises:
      ValueError: a sentence is too long for a batch.
    """
    data = sections.data
    weights = tuple(weight for _, weight in data.corpora) or (1,)
    options: dict[str, Any] = _options(prepared, sections, devices, sections.seed)
    options["weights"] = weights
    if data.batching == "packed":
        return PackedBatches(prepared.splits["train"], packed_length=data.packed_length, **options)
    return BucketedBatches(prepared.splits["train"], num_buckets=data.num_buckets, **options)


def evaluation_batches(
    prepared: Prepared, split: str, sections: Sections, devices: Devices
) -> Batches:
    """Batches whose first epoch holds every pair of the split once, in the corpus's own order.

    Raises:
      ValueError: a sentence is too long for a batch.
    """
    return BucketedBatches(
        prepared.splits[split],
        num_buckets=sections.data.num_buckets,
        shuffle=False,
        **_options(prepared, sections, devices, _EVALUATION_SEED),
    )


def check_lengths(prepared: Prepared, sections: Sections, devices: Devices) -> None:
    """Finds a sentence that could not be trained on or scored, before anything is trained.

    Those that fit in no batch of train are found by `train_batches`.

    Raises:
      ValueError: it has more tokens than there are learned positions, or than fit in a batch.
    """
    for name, split in prepared.splits.items():
        if name != "train":
            evaluation_batches(prepared, name, sections, devices)
        longest = max(split.source_lengths.max(), split.target_lengths.max())
        has_table = sections.model.positions == "learned" and sections.model.family != "recurrent"
        if has_table and longest > sections.model.max_positions:
            raise ValueError(
                f"model.max_positions={sections.model.max_positions} is less than the {longest} "
                f"tokens of a sentence of {name}; learned positions need as many"
            )


def describe(batches: Batches) -> str:
    """How long an epoch is, which shapes its batches have and how much of them is padding."""
    sides = "source + target" if batches.shapes[0].source_length else "target"
    shapes = ", ".join(
        f"{rows} x ({source} + {target})" if source else f"{rows} x {target}"
        for rows, source, target in batches.shapes
    )
    return (
        f"an epoch is {batches.batches_per_epoch} batches, {batches.non_padding_share:.1%} of them "
        f"tokens, the rest padding; shapes, rows x ({sides}): {shapes}"
    )


def _options(prepared: Prepared, sections: Sections, devices: Devices, seed: int) -> dict[str, Any]:
    """What both kinds of batches take; `seed` is that of the masks and of the order."""
    masking = None
    if sections.data.task == "masked_language_modelling":
        masking = Masking(sections.data.mask_rate, prepared.vocabulary.size, seed)
    return {
        "source_tokens_per_batch": sections.data.source_tokens_per_batch,
        "target_tokens_per_batch": sections.data.target_tokens_per_batch,
        "row_multiple": devices.num_data,
        "seed": seed,
        "masking": masking,
    }
