"""Checkpoints: which are kept, their mean, and whose they are."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.training.checkpoint import Checkpoints
from tests.training.runs import IDENTITY, batch


def test_only_the_last_checkpoints_are_kept_and_their_mean_is_exact(run, tmp_path):
    saved = []
    with Checkpoints(tmp_path / "c", identity=IDENTITY, keep=3) as checkpoints:
        state = jax.tree.map(jnp.asarray, run.initial)
        for i in range(4):
            state, _ = run.train_step(state, batch(i))
            checkpoints.save(state)
            saved.append(jax.device_get(state.params))
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        assert checkpoints.steps == [2, 3, 4]
        mean = checkpoints.restore_params(run.initial.params, average=2)
        with pytest.raises(ValueError, match=r"holds 3 checkpoints, .* needs 4"):
            checkpoints.restore_params(run.initial.params, average=4)
    expected = jax.tree.map(lambda a, b: (a.astype(np.float64) + b) / 2, saved[2], saved[3])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), mean, expected)


def test_a_checkpoint_of_another_vocabulary_is_refused(run, tmp_path):
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        checkpoints.save(run.initial)
    other = {"vocabulary_fingerprint": "4567"}
    with Checkpoints(tmp_path / "c", identity=other) as checkpoints:
        for restore in (
            lambda: checkpoints.restore_last(run.initial),
            lambda: checkpoints.restore_params(run.initial.params),
        ):
            with pytest.raises(ValueError, match="vocabulary_fingerprint 0123, here it is 4567"):
                restore()


def test_a_checkpoint_of_another_model_is_refused(run, tmp_path):
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        checkpoints.save(run.initial)
        wider = jax.tree.map(lambda leaf: np.zeros((*leaf.shape, 2)), run.initial.params)
        with pytest.raises(ValueError, match="does not fit this model"):
            checkpoints.restore_params(wider)


def test_a_checkpoint_without_a_fact_can_still_be_read(run, tmp_path):
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        checkpoints.save(run.initial)
    newer = IDENTITY | {"data_fingerprint": "4567"}
    with Checkpoints(tmp_path / "c", identity=newer) as checkpoints:
        assert checkpoints.restore_last(run.initial) is not None


def test_who_reads_leaves_what_another_writes(run, tmp_path):
    being_written = tmp_path / "c" / "7.orbax-checkpoint-tmp"
    being_written.mkdir(parents=True)
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as reader:
        assert reader.steps == []
        time.sleep(0.5)  # Orbax cleans up in the background
    assert being_written.exists()
