"""What batches cost: planning time and memory, padding, and the feed against the training step.

    python -m experiments.benchmarks.batch_speed --pairs=4500000
    python -m experiments.benchmarks.batch_speed --config=configs/tiny.py

The first invents a corpus with lengths like WMT's (log-normal, mean 27, correlation 0.94 between
the sides) and plans two epochs of it, bucketed and packed, in batches of 25,000 + 25,000 tokens.
The second takes a config's corpus, prepared beforehand, and its batches, and compares the batches/s
of the feed alone with the steps/s of training.
"""

import dataclasses
import functools
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import app, flags
from ml_collections import config_flags

from t2t_jax.cli.command import parse_flags
from t2t_jax.cli.given_config import given_config

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    from t2t_jax.data.batches.batches import Batches
    from t2t_jax.data.prepare.prepared import Prepared, PreparedSplit
    from t2t_jax.runs.sections import Sections

# The paper's batches, on eight devices.
_TOKENS_PER_BATCH, _ROW_MULTIPLE = 25_000, 8
# The longest sentence, and the standard deviations of log length and of log ratio of the sides.
_LONGEST, _SPREAD, _DIFFERENCE = 256, 0.65, 0.2
_FED_BATCHES = 500
_STEPS_A_ROUND, _ROUNDS = 40, 5


def wmt_like_split(num_pairs: int) -> "PreparedSplit":
    """About `num_pairs` pairs with lengths like WMT's; all tokens are the same."""
    from t2t_jax.data.prepare.prepared import PreparedSplit

    generator = np.random.default_rng(0)
    log_source = generator.normal(3.05, _SPREAD, num_pairs)
    log_target = log_source + generator.normal(0, _DIFFERENCE, num_pairs)
    lengths = 1 + np.rint(np.exp(np.stack([log_source, log_target]))).astype(np.int64)
    lengths = lengths[:, (lengths.min(axis=0) > 1) & (lengths.max(axis=0) <= _LONGEST)]
    arrays = []
    for side in lengths:
        offsets = np.concatenate([[0], np.cumsum(side)])
        arrays += [np.full(offsets[-1], 5, np.uint16), offsets]
    return PreparedSplit(*arrays)


def planning(make: "Callable[[], Batches]") -> dict[str, Any]:
    """The costs of the batches from `make`: seconds, megabytes, padding."""
    started = time.perf_counter()
    batches = make()
    constructed = time.perf_counter()
    batches[0]
    first = time.perf_counter()
    num_batches = batches.batches_per_epoch
    batches[num_batches]
    second = time.perf_counter()
    batches[0]  # one plan is kept, again that of the first epoch
    source_share, target_share = batches.non_padding_share_by_side
    largest = max(batches.shapes, key=lambda shape: shape[0] * (shape[1] + shape[2]))
    measured: dict[str, Any] = {
        "shapes": len(batches.shapes),
        "largest_shape": "{} x ({} + {})".format(*largest),
        "batches_per_epoch": num_batches,
        "non_padding_share": round(batches.non_padding_share, 4),
        "non_padding_share_source": round(source_share, 4),
        "non_padding_share_target": round(target_share, 4),
        "seconds_to_construct": round(constructed - started, 2),
        "seconds_to_plan_first_epoch": round(first - constructed, 2),
        "seconds_to_plan_next_epoch": round(second - first, 2),
    }
    for name, start in (("first", 0), ("middle", num_batches // 2), ("last", num_batches - 20)):
        measured[f"milliseconds_a_batch_{name}"] = round(1e3 * _seconds_a_batch(batches, start), 2)
    measured["fed_batches_a_second"] = round(fed_batches_a_second(batches, lambda batch: batch))
    del batches
    return measured | _memory(make)


def _seconds_a_batch(batches: "Batches", start: int) -> float:
    """Seconds per batch, over 20 batches from `start` on, or from 0 if there are fewer."""
    started = time.perf_counter()
    for i in range(20):
        batches[max(start, 0) + i]
    return (time.perf_counter() - started) / 20


def _memory(make: "Callable[[], Batches]") -> dict[str, Any]:
    """Megabytes held by an epoch's plan, and the peak while planning it and the next."""
    tracemalloc.start()
    batches = make()
    batches[0]
    one_epoch, peak = tracemalloc.get_traced_memory()
    batches[batches.batches_per_epoch]
    _, later_peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "megabytes_of_plan": round(one_epoch / 1e6),
        "megabytes_at_peak": round(max(peak, later_peak) / 1e6),
    }


def fed_batches_a_second(batches: "Batches", put: Callable) -> float:
    """Batches/s from the feed if nothing is done with them."""
    from t2t_jax.data.batches.feed import feed

    fed = feed(batches, 0, _FED_BATCHES, put)
    next(fed)
    started = time.perf_counter()
    num_fed = sum(1 for _ in fed)
    return num_fed / (time.perf_counter() - started)


def feed_against_step(sections: "Sections", prepared: "Prepared") -> dict[str, Any]:
    """Batches/s of the feed alone, and steps/s of the training it feeds."""
    import jax

    from t2t_jax.compilation import compile_init, compile_train_step
    from t2t_jax.data.batches.feed import feed
    from t2t_jax.devices import make_devices
    from t2t_jax.runs.batches import train_batches
    from t2t_jax.runs.steps import state_and_step

    devices = make_devices(**dataclasses.asdict(sections.devices))
    batches = train_batches(prepared, sections, devices)
    make_state, train_step = state_and_step(sections, devices)
    state = compile_init(devices, make_state, sections.seed)
    step = compile_train_step(devices, train_step, state)
    for batch in _one_of_each_shape(batches):
        state, _ = step(state, devices.put_batch(batch))
    # They take turns, so that other load on the machine affects both. The fastest round counts.
    fed, steps = [], []
    for _ in range(_ROUNDS):
        fed.append(fed_batches_a_second(batches, devices.put_batch))
        jax.block_until_ready(state)
        started = time.perf_counter()
        for batch in feed(batches, 0, _STEPS_A_ROUND, devices.put_batch):
            state, _ = step(state, batch)
        jax.block_until_ready(state)
        steps.append(_STEPS_A_ROUND / (time.perf_counter() - started))
    return {
        "shapes": len(batches.shapes),
        "non_padding_share": round(batches.non_padding_share, 4),
        "fed_batches_a_second": round(max(fed), 1),
        "steps_a_second": round(max(steps), 2),
        "feed_over_step": round(max(fed) / max(steps), 1),
    }


def _one_of_each_shape(batches: "Batches") -> Iterator:
    seen = set()
    for i in range(batches.batches_per_epoch):
        batch = batches[i]
        shape = batch.source_ids.shape, batch.target_ids.shape
        if shape not in seen:
            seen.add(shape)
            yield batch
        if len(seen) == len(batches.shapes):
            return


def main(_: list[str]) -> None:
    """Measures and prints one JSON object."""
    from t2t_jax.data.batches.batches import BucketedBatches, PackedBatches
    from t2t_jax.runs.prepare import prepare
    from t2t_jax.runs.sections import read_sections

    if flags.FLAGS.config is not None:
        try:
            sections = read_sections(
                given_config("config", lambda line: print(line, file=sys.stderr))
            )
            prepared = prepare(sections)
        except (OSError, TypeError, ValueError) as error:
            sys.exit(f"batch_speed: {error}")
        measured = feed_against_step(sections, prepared)
        print(json.dumps(measured, indent=2))
        return
    split = wmt_like_split(flags.FLAGS.pairs)
    options: dict[str, Any] = {
        "source_tokens_per_batch": _TOKENS_PER_BATCH,
        "target_tokens_per_batch": _TOKENS_PER_BATCH,
        "row_multiple": _ROW_MULTIPLE,
        "seed": 0,
    }
    num_buckets, packed_length = flags.FLAGS.num_buckets, flags.FLAGS.packed_length
    measured = {
        "pairs": split.num_pairs,
        "bucketed": planning(lambda: BucketedBatches(split, num_buckets=num_buckets, **options)),
        "packed": planning(lambda: PackedBatches(split, packed_length=packed_length, **options)),
    }
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.DEFINE_integer("pairs", 4_500_000, "pairs of the invented corpus", lower_bound=1_000)
    flags.DEFINE_integer("num_buckets", 8, "buckets of its batches", lower_bound=1)
    flags.DEFINE_integer(
        "packed_length", _LONGEST, "tokens of a packed target row", lower_bound=_LONGEST
    )
    app.run(main, flags_parser=functools.partial(parse_flags, "batch_speed"))
