"""t2t-jax train: trains a model, or goes on with one that was stopped.

    t2t-jax train --config=configs/tiny.py --workdir=W
    t2t-jax train --config=configs/tiny.py --workdir=W --config.training.steps=500

The same command again continues from the last checkpoint, and does nothing when the run is done.
W then holds the config, the vocabulary, checkpoints, metrics.jsonl and TensorBoard files.
"""

import sys
from pathlib import Path

import jax.numpy as jnp
from absl import flags
from ml_collections import ConfigDict, config_flags

from t2t_jax.cli import workdir as run_directory
from t2t_jax.cli.prepare import prepare
from t2t_jax.cli.sections import Sections, read_sections
from t2t_jax.data.batches import BucketedBatches
from t2t_jax.data.feed import feed
from t2t_jax.data.prepared import Prepared, PreparedSplit
from t2t_jax.devices import Devices, make_devices
from t2t_jax.json_files import write_json
from t2t_jax.model.transformer import Transformer, num_parameters
from t2t_jax.training import loop
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.loss import LossFn, make_loss_fn, sum_of
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.schedule import learning_rate
from t2t_jax.training.step import make_eval_step, make_train_state, make_train_step


def train(config: ConfigDict, workdir: Path) -> None:
    """Trains as `config` says, in `workdir`, from where the run there stands.

    Raises:
      ValueError, TypeError: the config or the corpus is wrong, or `workdir` is of another run.
      loop.Stopped: a signal asked to stop; the state was saved.
    """
    sections = read_sections(config)
    if sections.model.num_decoder_layers < 1:
        raise ValueError("model.num_decoder_layers=0: a decoder needs at least 1 layer to attend")
    prepared = prepare(config)
    devices = make_devices(sections.devices.data)
    _check_lengths(prepared, sections, devices)
    batches = _batches(prepared.splits["train"], sections, devices, shuffle=True)
    run_directory.check_vocabulary(workdir, prepared.vocabulary)
    run_directory.write_config(workdir, config)
    prepared.vocabulary.save(workdir / "vocabulary.model")

    model = Transformer(sections.model)
    optimizer = make_optimizer(sections.training, sections.model.d_model)
    make_state = devices.compile(lambda seed: make_train_state(model, optimizer, seed))
    state = make_state(sections.seed)
    train_step = make_train_step(_loss_fn(model, sections), optimizer)
    num_params = num_parameters(sections.model)
    _log_start(num_params, devices, batches)

    with Checkpoints(
        workdir / "checkpoints",
        identity=run_directory.identity(prepared.vocabulary),
        # And one that a stopped run saves out of turn.
        keep=sections.training.keep_checkpoints + 1,
    ) as checkpoints:
        state = checkpoints.restore_last(state) or state
        if int(state.step) > 0:
            _log(f"continuing after step {int(state.step)}")
        is_done = int(state.step) >= sections.training.steps
        if is_done and (workdir / "training.json").exists():
            return
        summary = loop.train(
            state,
            sections.training,
            train_step=devices.compile_train_step(train_step),
            feed=lambda start, stop: feed(batches, start, stop, devices.put_batch),
            evaluate=make_evaluate(sections, devices, model, prepared.splits["dev"]),
            learning_rate=lambda step: float(
                learning_rate(jnp.asarray(step), sections.training, sections.model.d_model)
            ),
            checkpoints=checkpoints,
            workdir=workdir,
        )
    facts = summary._asdict() | {
        "params": num_params,
        "data_fingerprint": prepared.fingerprint,
        "vocabulary_fingerprint": prepared.vocabulary.fingerprint,
        "direction": f"{sections.data.source_language}-{sections.data.target_language}",
        "hardware": devices.describe(),
        "non_padding_share": batches.non_padding_share,
    }
    write_json(workdir / "training.json", facts)
    early = ", stopped early: dev perplexity no longer improved" if summary.stopped_early else ""
    _log(f"trained {summary.steps:,} steps in {summary.seconds:,.0f} s{early}")


def make_evaluate(
    sections: Sections, devices: Devices, model: Transformer, split: PreparedSplit
) -> loop.Evaluate:
    """Builds `evaluate(params)`: the sums of the loss over every pair of `split`, once each."""
    eval_step = devices.compile(make_eval_step(_loss_fn(model, sections)))
    batches = _batches(split, sections, devices, shuffle=False)

    def evaluate(params):
        fed = feed(batches, 0, batches.batches_per_epoch, devices.put_batch)
        return sum_of([eval_step(params, batch) for batch in fed])

    return evaluate


def _loss_fn(model: Transformer, sections: Sections) -> LossFn:
    training = sections.training
    return make_loss_fn(model, training.label_smoothing, training.loss_chunk_tokens)


def _batches(
    split: PreparedSplit, sections: Sections, devices: Devices, *, shuffle: bool
) -> BucketedBatches:
    return BucketedBatches(
        split,
        source_tokens_per_batch=sections.data.source_tokens_per_batch,
        target_tokens_per_batch=sections.data.target_tokens_per_batch,
        num_buckets=sections.data.num_buckets,
        row_multiple=devices.num_data,
        seed=sections.seed,
        shuffle=shuffle,
    )


def _check_lengths(prepared: Prepared, sections: Sections, devices: Devices) -> None:
    """Finds a sentence of any split that could not be trained on or scored, before anything is.

    Raises:
      ValueError: it has more tokens than there are learned positions, or than fit in a batch.
    """
    for name, split in prepared.splits.items():
        _batches(split, sections, devices, shuffle=False)
        longest = max(split.source_lengths.max(), split.target_lengths.max())
        if sections.model.positions == "learned" and longest > sections.model.max_positions:
            raise ValueError(
                f"model.max_positions={sections.model.max_positions} is less than the {longest} "
                f"tokens of a sentence of {name}; learned positions need as many"
            )


def _log_start(num_params: int, devices: Devices, batches: BucketedBatches) -> None:
    _log(f"{num_params / 1e6:.2f} million parameters on {devices.describe()}")
    shapes = ", ".join(f"{rows} x ({source} + {target})" for rows, source, target in batches.shapes)
    _log(
        f"an epoch is {batches.batches_per_epoch} batches, {batches.non_padding_share:.1%} of them "
        f"tokens, the rest padding; shapes, rows x (source + target): {shapes}"
    )


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.DEFINE_string("workdir", None, "where the run is kept, or is found again")
    flags.mark_flags_as_required(["config", "workdir"])


def main() -> None:
    """Runs the verb."""
    train(flags.FLAGS.config, Path(flags.FLAGS.workdir).expanduser())
