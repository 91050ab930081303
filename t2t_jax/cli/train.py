"""t2t-jax train: trains a model, or goes on with one that was stopped.

    t2t-jax train --config=configs/tiny.py --workdir=W
    t2t-jax train --config=configs/tiny.py --workdir=W --config.training.steps=500
    t2t-jax train --config=configs/multi30k.py --workdir=W --init=hf:DIR \
      --config.training.label_smoothing_mass=others_but_padding

The same command again continues from the last checkpoint, and does nothing when the run is done.
W then holds the config, the vocabulary, a classifier's classes.txt, checkpoints, metrics.jsonl and
TensorBoard files.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from absl import flags
from ml_collections import ConfigDict, config_flags

from t2t_jax import hosts
from t2t_jax.cli import pretrained
from t2t_jax.cli import workdir as run_directory
from t2t_jax.cli.batches import check_lengths, describe
from t2t_jax.cli.prepare import prepare
from t2t_jax.cli.sections import Sections, read_sections
from t2t_jax.cli.seeds import Runs
from t2t_jax.cli.steps import make_evaluate
from t2t_jax.data.feed import feed
from t2t_jax.data.prepared import Prepared
from t2t_jax.devices import make_devices
from t2t_jax.json_files import write_json
from t2t_jax.model.families import make_model, num_parameters
from t2t_jax.training import loop
from t2t_jax.training.checkpoint import Checkpoints, CheckpointsOfSeeds
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.schedule import learning_rate


def train(config: ConfigDict, workdir: Path, init: str | None = None) -> None:
    """Trains as `config` says, in `workdir`, from where the run there stands.

    With `init`, hf:DIR, it begins with the weights of another library's model: the model section
    is theirs but for dropout and dtype, the vocabulary is their tokenizer.

    Raises:
      ValueError, TypeError: the config or the corpus is wrong, or `workdir` is of another run.
      loop.Stopped: a signal asked to stop; the state was saved.
    """
    hosts.check_same("the config", f"{config.to_json(sort_keys=True)} {init}".encode())
    begin = _beginning(workdir, config, init)
    if begin is not None:
        config = begin.config
    _train(config, {read_sections(config).seed: workdir}, begin)


def train_together(config: ConfigDict, workdirs: Mapping[int, Path]) -> None:
    """Trains a run for each seed, by one program that holds them all: for small models.

    Each is the run that `train` makes of `config` with its seed, up to rounding.

    Args:
      config: of all runs; its own seed says nothing.
      workdirs: seed -> where the run is kept.

    Raises:
      ValueError, TypeError: as `train`; or the runs have not come equally far, or may stop on
        their own (training.patience).
      loop.Stopped: a signal asked to stop; the states were saved.
    """
    _train(config, workdirs, None)


def _train(
    config: ConfigDict, workdirs: Mapping[int, Path], begin: pretrained.Beginning | None
) -> None:
    sections = read_sections(config)
    if sections.model.family != "encoder_only" and sections.model.num_decoder_layers < 1:
        raise ValueError("model.num_decoder_layers=0: a decoder needs at least 1 layer to attend")
    vocabulary = begin.vocabulary if begin else None
    configs = {
        workdir: ConfigDict(config.to_dict() | {"seed": seed}).lock()
        for seed, workdir in workdirs.items()
    }
    prepared = hosts.first_then_others(lambda: prepare(config, vocabulary))
    hosts.check_same("the prepared corpus", prepared.fingerprint.encode())
    # Before a device is asked for, which another process may hold.
    with run_directory.only_training(list(configs)):
        for workdir, of_seed in configs.items():
            run_directory.check_vocabulary(workdir, prepared.vocabulary)
            run_directory.check_config(workdir, of_seed)
        _train_alone(configs, sections, prepared, begin)


def _train_alone(
    configs: Mapping[Path, ConfigDict],
    sections: Sections,
    prepared: Prepared,
    begin: pretrained.Beginning | None,
) -> None:
    """Trains in directories where nobody else does; `configs` differ in their seed."""
    workdirs = list(configs)
    seeds = [read_sections(config).seed for config in configs.values()]
    devices = make_devices(**dataclasses.asdict(sections.devices))
    check_lengths(prepared, sections, devices)
    model = make_model(sections.model)
    optimizer = make_optimizer(sections.training, sections.model.d_model)
    runs = Runs(prepared, sections, devices, model, optimizer, seeds)
    state = runs.first_state()
    if begin is not None:
        params = pretrained.with_pretrained(state.params, begin.params)
        state = state._replace(params=devices.put(params))
    batches, train_step, put = runs.batches_and_step(state)
    num_params = num_parameters(sections.model)
    hosts.log(f"{num_params / 1e6:.2f} million parameters")
    for line in (*devices.describe_layout(state.params, state), describe(runs.batches)):
        hosts.log(line)

    with _checkpoints(workdirs, prepared, sections) as checkpoints:
        state = checkpoints.restore_last(state) or state
        step, steps = loop.common_step(state), sections.training.steps
        if step > steps:
            raise ValueError(
                f"{workdirs[0]} has {step} steps already, training.steps={steps} is less"
            )
        if step > 0:
            hosts.log(f"continuing after step {step}")
        for workdir, config in configs.items():  # not before: what is refused changes nothing
            run_directory.write_run(workdir, config, prepared)
        is_recorded = all((each / "training.json").exists() for each in workdirs)
        if step == steps and not hosts.any_of(not is_recorded):
            return
        summaries = loop.train(
            state,
            sections.training,
            train_step=train_step,
            feed=lambda start, stop: feed(batches, start, stop, put),
            evaluate=make_evaluate(sections, devices, model, prepared, "dev", len(workdirs)),
            learning_rate=lambda step: float(
                learning_rate(jnp.asarray(step), sections.training, sections.model.d_model)
            ),
            checkpoints=checkpoints,
            workdirs=workdirs,
        )
    facts = {
        "params": num_params,
        "data_fingerprint": prepared.fingerprint,
        "vocabulary_fingerprint": prepared.vocabulary.fingerprint,
        "direction": sections.data.direction,
        "hardware": devices.describe(),
        "non_padding_share": runs.batches.non_padding_share,
    }
    _record(dict(zip(workdirs, summaries, strict=True)), facts)
    summary = summaries[0]
    early = ", stopped early: dev perplexity no longer improved" if summary.stopped_early else ""
    seeds = f" of {len(workdirs)} seeds" if len(workdirs) > 1 else ""
    seconds = sum(each.seconds for each in summaries)
    hosts.log(f"trained {summary.steps:,} steps{seeds} in {seconds:,.0f} s{early}")


@contextlib.contextmanager
def _checkpoints(
    workdirs: Sequence[Path], prepared: Prepared, sections: Sections
) -> Iterator[Checkpoints | CheckpointsOfSeeds]:
    with contextlib.ExitStack() as stack:
        of_seeds = [
            stack.enter_context(
                Checkpoints(
                    workdir / "checkpoints",
                    identity=run_directory.identity(prepared.vocabulary, prepared.fingerprint),
                    # And one that a stopped run saves out of turn.
                    keep=sections.training.keep_checkpoints + 1,
                )
            )
            for workdir in workdirs
        ]
        yield of_seeds[0] if len(of_seeds) == 1 else CheckpointsOfSeeds(of_seeds)


def _record(summaries: Mapping[Path, loop.Summary], facts: Mapping[str, Any]) -> None:
    """Writes `training.json` of every seed, by its directory."""
    for workdir, summary in summaries.items():
        together = {"seeds_together": len(summaries)}
        if hosts.is_first():
            write_json(workdir / "training.json", {**summary._asdict(), **together, **facts})
    hosts.wait("the run is recorded")


def _beginning(workdir: Path, config: ConfigDict, init: str | None) -> pretrained.Beginning | None:
    if init is not None:
        return pretrained.beginning(pretrained.directory_of(init, "init"), config)
    if (workdir / "vocabulary.model").is_dir():
        raise ValueError(f"{workdir} holds a run that began with --init=hf:DIR: give it again")
    return None


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
