"""The workload of a run's steps: the shapes of its batches, and how often each occurs."""

from typing import NamedTuple

import jax

from t2t_jax.data.batches.assembling import BatchShape
from t2t_jax.data.batches.epochs import multiple, row_multiple_of, rows_that_fit
from t2t_jax.data.prepare.prepared import Prepared, already_prepared
from t2t_jax.decoding.length_batches import SHORTEST
from t2t_jax.devices import make_devices
from t2t_jax.model.config import TransformerConfig
from t2t_jax.plan.roofline import estimated_bytes
from t2t_jax.runs.batches import train_batches
from t2t_jax.runs.sections import Sections

# About the mean of WMT14 English-German in 37,000 pieces. The tokens of a batch are fixed, so this
# number affects attention alone.
_USUAL_LENGTH = 32
# Used without a corpus: the sizes of newstest2013 and newstest2014; `long` is embedded.
_USUAL_SENTENCES = {"dev": 3_000, "test": 3_003, "long": 1_000}


class Workload(NamedTuple):
    """Batches of all shapes, with the rows of all devices together."""

    shapes: tuple[BatchShape, ...]
    shares: tuple[float, ...]  # of an epoch's batches, one for each shape; their sum is 1
    num_shapes: int  # of the run; each is compiled
    is_packed: bool
    num_scored: int  # sentences that are translated at the end
    words: str  # where all this comes from

    def largest(self, config: TransformerConfig) -> BatchShape:
        """The shape that moves the most bytes if attention weights are written: it must fit."""
        return max(
            self.shapes, key=lambda shape: estimated_bytes(config, shape, 0, 1, as_einsum=True)
        )

    @property
    def commonest(self) -> BatchShape:
        """The shape that occurs most often."""
        return self.shapes[max(range(len(self.shapes)), key=self.shares.__getitem__)]


def workload(sections: Sections) -> Workload:
    """The workload of the prepared corpus if there is one, else of the config's budget.

    Raises:
      ValueError: a sentence of the corpus, or `data.max_length`, is too long for a batch.
    """
    prepared = already_prepared(sections.data)
    if prepared is None:
        return _of_budget(sections)
    return _of_corpus(prepared, sections)


def widest_decode(sections: Sections) -> tuple[int, int] | None:
    """Rows and tokens of the batch of sources with most hypotheses; None without a search."""
    if sections.data.task != "translation":
        return None
    decoding = sections.decoding
    length = min(SHORTEST, sections.data.max_length)
    rows = max(1, decoding.tokens_per_batch // decoding.beam_size // length)
    return rows, length


def _of_corpus(prepared: Prepared, sections: Sections) -> Workload:
    batches = train_batches(prepared, sections, make_devices(1, devices=jax.devices()[:1]))
    counts = batches.batches_by_shape
    return Workload(
        shapes=batches.shapes,
        shares=tuple(count / sum(counts) for count in counts),
        num_shapes=len(counts),
        is_packed=sections.data.batching == "packed",
        num_scored=sum(
            prepared.splits[split].num_pairs for split in sections.evaluation.translated_splits
        ),
        words=f"shapes of the prepared corpus {prepared.directory.name}",
    )


def _of_budget(sections: Sections) -> Workload:
    data = sections.data
    budgets = data.source_tokens_per_batch, data.target_tokens_per_batch
    if data.batching == "packed":
        length = multiple(data.packed_length, data.length_multiple)
        shapes = [_shape(sections, budgets, length)]
        words = f"rows of data.packed_length={data.packed_length}"
    else:
        usual = min(_USUAL_LENGTH, data.max_length)
        lengths = {multiple(length, data.length_multiple) for length in (usual, data.max_length)}
        shapes = [_shape(sections, budgets, length) for length in lengths]
        shapes.sort(key=lambda shape: shape[1:])
        words = f"sentences of {usual} tokens, the longest of data.max_length={data.max_length}"
    return Workload(
        shapes=tuple(shapes),
        # The long ones are rare: they count for memory, not for hours.
        shares=(1.0, *[0.0] * (len(shapes) - 1)),
        num_shapes=1 if data.batching == "packed" else data.num_buckets,
        is_packed=data.batching == "packed",
        num_scored=sum(_USUAL_SENTENCES[split] for split in sections.evaluation.translated_splits)
        if data.task == "translation"
        else 0,
        words=f"no prepared corpus: {words}",
    )


def _shape(sections: Sections, budgets: tuple[int, int], length: int) -> BatchShape:
    source, target = length, length
    match sections.data.task:
        case "language_modelling":
            source = 0
        case "classification":
            target = 1
        case "translation" | "masked_language_modelling":
            pass
    is_packed = sections.data.batching == "packed"
    row_multiple = 1 if is_packed else row_multiple_of(budgets, (source, target))
    rows = rows_that_fit(budgets, (source, target), row_multiple)
    if rows < 1:
        raise ValueError(
            f"data.source_tokens_per_batch={budgets[0]} and data.target_tokens_per_batch="
            f"{budgets[1]} hold no sentence of {length} tokens: raise them, or lower "
            "data.max_length"
        )
    return BatchShape(rows, source, target)
