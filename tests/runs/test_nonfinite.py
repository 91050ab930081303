"""A run with non-finite numbers: what it leaves, and which verbs use it."""

import json
import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from t2t_jax.devices import Devices
from t2t_jax.json_files import read_json
from t2t_jax.runs import nonfinite, steps
from t2t_jax.runs.nonfinite import reproduce
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.train import train
from t2t_jax.runs.workdir import load_trained, read_config
from t2t_jax.training.loss import make_loss_fn
from t2t_jax.training.metrics_file import read_metrics
from t2t_jax.training.nonfinite import Diverged
from tests.runs.configs import smallest

# A rate at which the second step has no finite loss.
WILD = {"training.schedule": "peak", "training.peak_learning_rate": 1e30}
LAYOUTS = {
    "8 x data": {"devices.data": 8},
    "4 x data, 2 x fsdp, microbatches": {
        "devices.data": 4,
        "devices.fsdp": 2,
        "training.microbatches": 2,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_step_that_failed_is_kept_and_fails_again(cache, tmp_path, layout):
    with pytest.raises(Diverged, match=r"diverged at step 2: .* of batch 1 .*; the loss is ") as no:
        train(smallest(cache, **WILD, **layout), tmp_path)
    directory = tmp_path / "nonfinite" / "2"
    assert f"python -m t2t_jax.runs.nonfinite {directory} computes the step again" in str(no.value)
    found = reproduce(directory)
    assert not np.isfinite([found.loss, found.gradient_norm]).all()
    assert "embedding/table" in found.names or " more" in found.names
    assert found.names in str(no.value)
    # It is the step before that is kept, which was good.
    state = ocp.StandardCheckpointer().restore(directory / "state")
    assert state["step"] == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state["params"]))
    assert read_json(directory / "step.json")["batch"] == 1
    assert not list((tmp_path / "checkpoints").iterdir())
    assert not (tmp_path / "training.json").exists()


@pytest.mark.slow
def test_that_of_an_ensemble_on_gpus_is_kept_and_gone_back_from(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(Devices, "are_gpus", True)
    policy = {"training.nonfinite": "rewind", "training.max_nonfinite": 1}
    with pytest.raises(Diverged, match="is not|are not finite, and the run has gone back once"):
        train(smallest(cache, **WILD, **policy, **{"model.ensemble_size": 2}), tmp_path)
    [directory] = (tmp_path / "nonfinite").iterdir()
    found = reproduce(directory)
    assert not np.isfinite([found.loss, found.gradient_norm]).all()
    assert "members_" in found.names


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (nonfinite.Found(math.nan, math.nan, "a, b"), "the gradients of a, b are not finite"),
        (nonfinite.Found(1.0, math.inf, ""), "only the norm of all gradients together is not"),
        (nonfinite.Found(math.inf, 1.0, ""), "the gradients are finite"),
        (nonfinite.Found(1.0, 1.0, ""), "computed again, everything is finite"),
    ],
    ids=str,
)
def test_what_is_not_finite_is_told(found, sentence):
    assert nonfinite._what_is_not_finite(found).startswith(sentence)


@pytest.mark.slow
def test_a_run_that_diverged_goes_on_under_another_policy(cache, tmp_path):
    with pytest.raises(Diverged):
        train(smallest(cache, **WILD), tmp_path)
    command = [sys.executable, "-m", "t2t_jax.runs.nonfinite"]
    done = subprocess.run(
        [*command, str(tmp_path / "nonfinite" / "2")], capture_output=True, text=True, check=True
    )
    assert "loss nan" in done.stdout or "loss inf" in done.stdout
    assert "gradients that are not finite: " in done.stdout
    with pytest.raises(Diverged, match="batch 3 .*, and the run has gone back once"):
        policy = {"training.nonfinite": "rewind", "training.max_nonfinite": 1}
        train(smallest(cache, **WILD, **policy), tmp_path)


def test_the_command_tells_what_is_no_step(tmp_path, capsys):
    with pytest.raises(SystemExit, match=f"nonfinite: {tmp_path} holds no step"):
        nonfinite.main([str(tmp_path)])
    (tmp_path / "step.json").write_text('{"microbatches": 1}')
    (tmp_path / "config.json").write_text(json.dumps(smallest(tmp_path).values()))
    (tmp_path / "batch.npz").write_bytes(b"PK")
    with pytest.raises(SystemExit, match=f"nonfinite: {tmp_path} is damaged: "):
        nonfinite.main([str(tmp_path)])
    with pytest.raises(SystemExit, match="one argument is needed"):
        nonfinite.main([])
    nonfinite.main(["--help"])
    assert "W/nonfinite/STEP" in capsys.readouterr().out


def test_what_was_skipped_stands_in_the_record_of_the_training(cache, tmp_path, monkeypatch):
    def sometimes_none(*arguments):
        loss_fn = make_loss_fn(*arguments)

        def spoiled(params, batch, key):
            loss, metrics = loss_fn(params, batch, key)
            is_bad = (batch.target_ids.sum() % 2 == 1) & (key is not None)
            return jnp.where(is_bad, jnp.nan, loss), metrics._replace(
                loss=jnp.where(is_bad, jnp.nan, metrics.loss)
            )

        return spoiled

    monkeypatch.setattr(steps, "make_loss_fn", sometimes_none)
    train(smallest(cache, **{"training.nonfinite": "skip"}), tmp_path)
    facts = json.loads((tmp_path / "training.json").read_text(), parse_constant=pytest.fail)
    assert facts["steps"] == 8 and 0 < facts["skipped"] < 8
    assert (facts["rewinds"], facts["left_out"]) == (0, 0)
    assert read_metrics(tmp_path / "metrics.jsonl")[-2]["skipped"] == facts["skipped"]


def test_a_model_of_no_numbers_is_refused_when_it_is_loaded(trained, tmp_path):
    config = read_config(trained)
    for name in ("config.json", "vocabulary.model"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    step = trained / "checkpoints" / "8"
    source, target = step.resolve(), (tmp_path / "checkpoints" / "8").resolve()
    with ocp.CheckpointManager(
        target.parent,
        item_handlers={
            "params": ocp.StandardCheckpointHandler(),
            "identity": ocp.JsonCheckpointHandler(),
        },
    ) as manager:
        params = ocp.StandardCheckpointer().restore(source / "params")
        params["embedding"]["table"] = params["embedding"]["table"].at[3, 2].set(np.nan)
        manager.save(
            8,
            args=ocp.args.Composite(
                params=ocp.args.StandardSave(params), identity=ocp.args.JsonSave({})
            ),
        )
    with pytest.raises(ValueError, match=r"are not all finite numbers \(embedding/table\): its tr"):
        load_trained(tmp_path, read_sections(config))
