"""t2t-jax train: trains a model, or goes on with one that was stopped.

    t2t-jax train --config=configs/tiny.py --workdir=W
    t2t-jax train --config=configs/tiny.py --workdir=W --config.training.steps=500
    t2t-jax train --config=configs/multi30k.py --workdir=W --init=hf:DIR \
      --config.training.label_smoothing_mass=others_but_padding

The same command again continues from the last checkpoint, and does nothing when the run is done.
W then holds the config, the vocabulary, a classifier's classes.txt, checkpoints, metrics.jsonl and
TensorBoard files.
"""

import sys
from pathlib import Path

import jax.numpy as jnp
from absl import flags
from flax import linen as nn
from ml_collections import ConfigDict, config_flags

from t2t_jax.cli import pretrained
from t2t_jax.cli import workdir as run_directory
from t2t_jax.cli.batches import check_lengths, describe, evaluation_batches, train_batches
from t2t_jax.cli.prepare import prepare
from t2t_jax.cli.sections import Sections, read_sections
from t2t_jax.data.feed import feed
from t2t_jax.data.prepared import Prepared
from t2t_jax.devices import Devices, make_devices
from t2t_jax.json_files import write_json
from t2t_jax.model.families import make_model, num_parameters
from t2t_jax.training import loop
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.loss import LossFn, make_loss_fn, sum_of
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.schedule import learning_rate
from t2t_jax.training.step import make_eval_step, make_train_state, make_train_step


def train(config: ConfigDict, workdir: Path, init: str | None = None) -> None:
    """Trains as `config` says, in `workdir`, from where the run there stands.

    With `init`, hf:DIR, it begins with the weights of another library's model: the model section
    is theirs but for dropout and dtype, the vocabulary is their tokenizer.

    Raises:
      ValueError, TypeError: the config or the corpus is wrong, or `workdir` is of another run.
      loop.Stopped: a signal asked to stop; the state was saved.
    """
    begin = None
    if init is not None:
        begin = pretrained.beginning(pretrained.directory_of(init, "init"), config)
        config = begin.config
    elif (workdir / "vocabulary.model").is_dir():
        raise ValueError(f"{workdir} holds a run that began with --init=hf:DIR: give it again")
    sections = read_sections(config)
    if sections.model.family != "encoder_only" and sections.model.num_decoder_layers < 1:
        raise ValueError("model.num_decoder_layers=0: a decoder needs at least 1 layer to attend")
    prepared = prepare(config, begin.vocabulary if begin else None)
    devices = make_devices(sections.devices.data)
    check_lengths(prepared, sections, devices)
    batches = train_batches(prepared, sections, devices)
    run_directory.check_vocabulary(workdir, prepared.vocabulary)
    run_directory.write_config(workdir, config)
    prepared.vocabulary.save(workdir / "vocabulary.model")
    run_directory.write_classes(workdir, prepared.classes)

    model = make_model(sections.model)
    optimizer = make_optimizer(sections.training, sections.model.d_model)
    make_state = devices.compile(lambda seed: make_train_state(model, optimizer, seed))
    state = make_state(sections.seed)
    if begin is not None:
        params = pretrained.with_pretrained(state.params, begin.params)
        state = state._replace(params=devices.put_replicated(params))
    train_step = make_train_step(_loss_fn(model, sections), optimizer)
    num_params = num_parameters(sections.model)
    _log(f"{num_params / 1e6:.2f} million parameters on {devices.describe()}")
    _log(describe(batches))

    with Checkpoints(
        workdir / "checkpoints",
        identity=run_directory.identity(prepared.vocabulary, prepared.fingerprint),
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
            evaluate=make_evaluate(sections, devices, model, prepared, "dev"),
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
        "direction": sections.data.direction,
        "hardware": devices.describe(),
        "non_padding_share": batches.non_padding_share,
    }
    write_json(workdir / "training.json", facts)
    early = ", stopped early: dev perplexity no longer improved" if summary.stopped_early else ""
    _log(f"trained {summary.steps:,} steps in {summary.seconds:,.0f} s{early}")


def make_evaluate(
    sections: Sections, devices: Devices, model: nn.Module, prepared: Prepared, split: str
) -> loop.Evaluate:
    """Builds `evaluate(params)`: the sums of the loss over every pair of `split`, once each."""
    eval_step = devices.compile(make_eval_step(_loss_fn(model, sections)))
    batches = evaluation_batches(prepared, split, sections, devices)

    def evaluate(params):
        fed = feed(batches, 0, batches.batches_per_epoch, devices.put_batch)
        return sum_of([eval_step(params, batch) for batch in fed])

    return evaluate


def _loss_fn(model: nn.Module, sections: Sections) -> LossFn:
    training = sections.training
    return make_loss_fn(
        model,
        training.label_smoothing,
        training.loss_chunk_tokens,
        training.label_smoothing_mass,
    )


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.DEFINE_string("workdir", None, "where the run is kept, or is found again")
    told = "hf:DIR: begin with the weights of a directory in Hugging Face format"
    flags.DEFINE_string("init", None, told)
    flags.mark_flags_as_required(["config", "workdir"])


def main() -> None:
    """Runs the verb."""
    train(flags.FLAGS.config, Path(flags.FLAGS.workdir).expanduser(), flags.FLAGS.init)
