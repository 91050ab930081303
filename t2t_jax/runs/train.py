"""A training run, from its last checkpoint to its last step."""

import dataclasses
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from t2t_jax import buckets, hosts
from t2t_jax.compilation import compile_init
from t2t_jax.data.batches.batches import Batches
from t2t_jax.data.batches.feed import feed
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.devices import make_devices
from t2t_jax.json_files import flat_dict, read_json, write_json
from t2t_jax.model.families import make_model, num_parameters
from t2t_jax.runs import nonfinite, pretrained
from t2t_jax.runs import workdir as run_directory
from t2t_jax.runs.batches import check_lengths, describe
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.sections import Sections
from t2t_jax.runs.state_form import StateForm, has_members_at_once
from t2t_jax.runs.step_cost import measures_of, step_cost
from t2t_jax.runs.steps import (
    batches_and_step,
    compiled_step,
    make_evaluate,
    make_first_state,
    optimizer_on,
)
from t2t_jax.runs.switches import switches
from t2t_jax.training import loop
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.schedule import learning_rate
from t2t_jax.training.step import TrainState
from t2t_jax.training.trace import Steps

_RECORD = "training.json"


def train(
    sections: Sections,
    workdir: Path,
    init: str | None = None,
    profile_steps: Steps | None = None,
) -> float:
    """Trains as `sections` say, in `workdir`, continuing the run there if there is one.

    `init`, hf:DIR, starts from the weights of another library's model: the model section is theirs
    except for dropout and dtype, and the vocabulary is their tokenizer. A trace of `profile_steps`
    is written to `workdir`/profile.

    Returns:
      Seconds in the training loop, this time.

    Raises:
      ValueError: the config or the corpus is wrong, or `workdir` belongs to another run.
      OSError: `workdir` cannot be written to.
      loop.Stopped: a signal asked to stop; the state was saved.
      Diverged: more steps are not finite than `training.nonfinite` allows.
    """
    values = sections.values()
    del values["data"]["cache"]  # each host may have its own
    told = f"{json.dumps(values)} {init}"
    hosts.check_same("the config", told.encode(), "start all with the same command")
    begin = _beginning(workdir, sections, init)
    if begin is not None:
        sections = begin.sections
    if sections.model.family != "encoder_only" and sections.model.num_decoder_layers < 1:
        raise ValueError("model.num_decoder_layers=0: a decoder needs at least 1 layer to attend")
    run_directory.check_place(workdir)  # before a long download
    run_directory.check_config(workdir, sections)
    prepared = prepare(sections, begin.vocabulary if begin else None)
    if begin is not None:
        begin = pretrained.with_classes(begin, prepared.classes)
    # Before devices are requested, which another process may hold.
    with run_directory.only_training(workdir):
        run_directory.check_config(workdir, sections)
        run_directory.check_vocabulary(workdir, prepared.vocabulary)
        return _train_alone(workdir, sections, prepared, begin, profile_steps)


def _train_alone(
    workdir: Path,
    sections: Sections,
    prepared: Prepared,
    begin: pretrained.Beginning | None,
    profile_steps: Steps | None,
) -> float:
    """Trains in a locked directory; returns seconds in the loop."""
    devices = make_devices(**dataclasses.asdict(sections.devices))
    check_lengths(prepared, sections, devices)
    model = make_model(sections.model)
    optimizer = optimizer_on(devices, sections)

    # A device may have no room for two states: the first is made only where no checkpoint is.
    of_checkpoint = make_first_state(model, optimizer, members_at_once=False)
    shapes = devices.shapes(jax.eval_shape(of_checkpoint, sections.seed))

    form = StateForm(has_members_at_once(sections, devices), devices, shapes)

    def last_state() -> TrainState | None:
        state = checkpoints.restore_last(shapes)
        return None if state is None else form.restored(state)

    def first_state() -> TrainState:
        make_state = make_first_state(model, optimizer, form.at_once)
        state = compile_init(devices, make_state, sections.seed, form.shapes)
        if begin is None:
            return state
        params = pretrained.with_pretrained(state.params, begin.params)
        return state._replace(params=devices.put(params))

    batches, train_step, microbatches = batches_and_step(
        prepared, sections, devices, model, optimizer, form.shapes
    )
    num_params = num_parameters(sections.model)
    hosts.log(f"{num_params / 1e6:.2f} million parameters")
    kinds = switches(sections.model)
    for line in (*devices.describe_layout(shapes.params, shapes), describe(batches), *kinds.lines):
        hosts.log(line)
    devices.check_room(shapes)

    with _checkpoints(workdir, sections, prepared) as checkpoints:
        state = last_state()
        if state is None and (there := run_directory.steps_done(workdir)):
            raise ValueError(
                f"{workdir} has trained {there:,} steps, but its checkpoints are gone: bring them "
                "back, or use another --workdir"
            )
        state = state or first_state()
        step = int(state.step)
        if not _is_to_go_on(workdir, sections, prepared, step, profile_steps):
            return 0.0
        if step > 0:
            hosts.log(f"continuing after step {step}")
        elif devices.are_accelerators and sections.model.dtype == "float32":
            hosts.log("model.dtype='float32' is slow on accelerators: 'bfloat16' is usually faster")
        dump = partial(nonfinite.dump, workdir, sections, devices, microbatches)
        started = time.monotonic()
        summary = loop.train(
            state,
            sections.training,
            train_step=compiled_step(
                devices, train_step, state, batches, sections.training.microbatches
            ),
            feed=lambda start, stop: feed(batches, start, stop, devices.put_batch),
            evaluate=make_evaluate(sections, devices, model, prepared, "dev"),
            learning_rate=lambda step: float(
                learning_rate(jnp.asarray(step), sections.training, sections.model.d_model)
            ),
            checkpoints=checkpoints,
            workdir=workdir,
            restore=lambda: last_state() or first_state(),
            dump=lambda state, batch: dump(form.for_checkpoint(state), batch),
            as_saved=form.for_checkpoint,
            measures=measures_of(batches, sections, devices),
            profile_steps=profile_steps,
        )
        seconds = time.monotonic() - started
    facts = {"params": num_params, "hardware": devices.describe(), **kinds.facts}
    if hosts.is_first():
        facts |= _facts(sections, prepared, batches, summary.steps)
        write_json(workdir / _RECORD, summary._asdict() | facts)
    hosts.wait("the run is recorded")
    early = ", stopped early: dev perplexity no longer improved" if summary.stopped_early else ""
    hosts.log(f"trained {summary.steps:,} steps in {summary.seconds:,.0f} s{early}")
    return seconds


def _is_to_go_on(
    workdir: Path, sections: Sections, prepared: Prepared, step: int, profile_steps: Steps | None
) -> bool:
    """Whether there is anything to train after `step`; writes what the directory says of the run.

    Raises:
      ValueError: the run has more steps already.
    """
    steps = sections.training.steps
    if step > steps:
        raise ValueError(f"{workdir} has {step} steps already, training.steps={steps} is less")
    is_same = run_directory.has_config(workdir, sections)
    # Not earlier: a refused run changes nothing.
    run_directory.write_run(workdir, sections, prepared)
    if profile_steps is not None and not step < profile_steps.first <= steps:
        to_do = f"{step + 1} to {steps}" if step < steps else "none"
        hosts.log(
            f"no trace: --profile_steps begins at step {profile_steps.first}, and the steps "
            f"to do are {to_do}"
        )
    record = _record_of(workdir / _RECORD, step)
    is_over = step == steps or (is_same and record.get("stopped_early", False))
    if not hosts.any_of(not (record and is_over)):
        done = "all" if step == steps else "training stopped early:"
        hosts.log(f"nothing to do: {done} {step:,} steps are done")
        return False
    if record.get("stopped_early") and hosts.is_first():  # from now on, until it ends again
        write_json(workdir / _RECORD, record | {"stopped_early": False})
    return True


def _checkpoints(workdir: Path, sections: Sections, prepared: Prepared) -> Checkpoints:
    """Those of the run in `workdir`; of another run they are refused."""
    config = flat_dict(sections.values())
    return Checkpoints(
        buckets.checkpoints_of(workdir),
        identity=run_directory.identity(prepared.vocabulary, prepared.fingerprint),
        config=config,
        check_config=partial(run_directory.check_same_run, workdir, now=config),
        # Plus one that a stopped run saves out of turn.
        keep=sections.training.keep_checkpoints + 1,
    )


def _facts(sections: Sections, prepared: Prepared, batches: Batches, steps: int) -> dict[str, Any]:
    """What a record says of the corpus and the cost."""
    return {
        "operations": _operations(batches, sections, steps),
        "examples": {split: each.num_pairs for split, each in prepared.splits.items()},
        "data_fingerprint": prepared.fingerprint,
        "vocabulary_fingerprint": prepared.vocabulary.fingerprint,
        "direction": sections.data.direction,
        "non_padding_share": batches.non_padding_share,
    }


def _operations(batches: Batches, sections: Sections, steps: int) -> dict[str, float]:
    """Operations of all matrix products of the training; none if they cannot be counted."""
    try:
        cost = step_cost(batches, sections.model)
    except ValueError as error:
        hosts.log(f"operations are not counted: {error}")
        return {}
    return {
        "without_padding": cost.operations * steps,
        "with_padding": cost.padded_operations * steps,
    }


def _record_of(record_file: Path, steps: int) -> dict[str, Any]:
    """The record of so many steps, empty if there is none; a damaged one is rewritten later."""
    try:
        record = read_json(record_file) if record_file.exists() else {}
    except ValueError as error:
        hosts.log(f"{error}: it is written anew, from the checkpoint")
        return {}
    return record if record.get("steps") == steps else {}


def _beginning(workdir: Path, sections: Sections, init: str | None) -> pretrained.Beginning | None:
    if init is not None:
        return pretrained.beginning(pretrained.directory_of(init, "init"), sections)
    if (workdir / "vocabulary.model").is_dir():
        raise ValueError(f"{workdir} holds a run that began with --init=hf:DIR: give it again")
    return None
