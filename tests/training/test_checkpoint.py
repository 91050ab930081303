"""Checkpoints: which are kept, their mean, and their owner."""

import asyncio
import errno
import gc
import json
import shutil
import time
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.experimental import multihost_utils

from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.nonfinite import Diverged
from tests.faults.damage import files_of, flipped
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
        with pytest.raises(ValueError, match=r"holds 3 checkpoints; .* needs 4"):
            checkpoints.restore_params(run.initial.params, average=4)
    expected = jax.tree.map(lambda a, b: (a.astype(np.float64) + b) / 2, saved[2], saved[3])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), mean, expected)


def test_two_stops_in_a_row_displace_no_checkpoint_in_turn(run, tmp_path):
    def at(step):
        return run.initial._replace(step=np.asarray(step, run.initial.step.dtype))

    with Checkpoints(tmp_path / "c", identity=IDENTITY, keep=2) as checkpoints:
        for step in (10, 20):
            checkpoints.save(at(step))
        checkpoints.save(at(25), out_of_turn=True)
    with Checkpoints(tmp_path / "c", identity=IDENTITY, keep=2) as checkpoints:
        assert checkpoints.steps == [20, 25]
        assert checkpoints.restore_last(run.initial) is not None
        checkpoints.save(at(27), out_of_turn=True)
        checkpoints.tidy()
        assert checkpoints.steps == [20, 27]
        checkpoints.save(at(30))
        checkpoints.delete_out_of_turn()
        assert checkpoints.steps == [30]
        checkpoints.save(at(40))
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        assert checkpoints.steps == [30, 40]


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


def save_steps(run, directory, *steps, **options):
    """Checkpoints of these steps, all of the same parameters."""
    with Checkpoints(directory, identity=IDENTITY, **options) as checkpoints:
        for step in steps:
            checkpoints.save(run.initial._replace(step=np.int32(step)))


def damage(directory, item="params"):
    """Flips a bit in the middle of what holds most of an item's numbers."""
    path = max(files_of(directory / item / "d"), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    path.write_bytes(flipped(content, 4 * len(content)))


@pytest.mark.parametrize("item", ["params", "progress"])
def test_a_run_goes_on_from_the_newest_whole_checkpoint_and_loses_none(run, tmp_path, capsys, item):
    save_steps(run, tmp_path / "c", 2, 4, 6)
    damage(tmp_path / "c" / "6", item)
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        state = checkpoints.restore_last(run.initial)
        assert state is not None and int(state.step) == 4
        told = capsys.readouterr().err
        assert "c/6 is damaged: " in told and "going on from that of step 4" in told
        assert checkpoints.steps == [2, 4, 6]  # what is refused later has changed nothing
        checkpoints.tidy()
        assert checkpoints.steps == [2, 4]
        assert (tmp_path / "checkpoints_damaged" / "6" / "params").is_dir()
        assert "checkpoints_damaged/6 now" in capsys.readouterr().err
        checkpoints.save(run.initial._replace(step=np.int32(6)))
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        state = checkpoints.restore_last(run.initial)
        assert state is not None and int(state.step) == 6


def test_who_has_a_damaged_checkpoint_is_told_the_file_and_nothing_of_a_library(
    run, tmp_path, capsys, caplog
):
    save_steps(run, tmp_path / "c", 2)
    there = tmp_path / "c" / "2"
    files = [there / "about" / "metadata"]
    for item in ("params", "progress"):
        largest = max(files_of(there / item / "d"), key=lambda path: path.stat().st_size)
        files += [there / item / "_METADATA", there / item / "manifest.ocdbt", largest]
    for path in files:
        content, name = path.read_bytes(), str(path.relative_to(there))
        flip = [flipped(content, 4 * len(content))] if "METADATA" not in name else []
        for damaged in (content[:-1], *flip, None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
                with pytest.raises(ValueError, match="c/2 is damaged: ") as refused:
                    checkpoints.restore_last(run.initial)
            sentence = str(refused.value).partition("c/2 is damaged: ")[2]
            assert name in sentence or f"{path.parent.name} lacks a file" in sentence
            assert len(sentence) < 60 + 2 * len(str(tmp_path)) + len(name), sentence
            path.write_bytes(content)
    gc.collect()
    assert "tensorstore" not in capsys.readouterr().err + caplog.text


def test_what_is_moved_away_lands_on_nothing(run, tmp_path):
    there = tmp_path / "checkpoints_damaged" / "4"
    there.mkdir(parents=True)
    save_steps(run, tmp_path / "c", 2, 4)
    damage(tmp_path / "c" / "4")
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        checkpoints.restore_last(run.initial)
        checkpoints.tidy()
    assert list(there.iterdir()) == []
    assert (tmp_path / "checkpoints_damaged" / "4.2" / "params").is_dir()


def test_where_all_are_damaged_nothing_is_begun_anew(run, tmp_path):
    save_steps(run, tmp_path / "c", 2, 4)
    damage(tmp_path / "c" / "2")
    (tmp_path / "c" / "4" / "about" / "metadata").unlink()
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        with pytest.raises(ValueError, match=r"^[^\n]*c has no whole checkpoint: [^\n]+ anew$"):
            checkpoints.restore_last(run.initial)
        assert checkpoints.steps == [2, 4]


def test_who_uses_a_damaged_checkpoint_is_told_the_flag_for_another(run, tmp_path):
    save_steps(run, tmp_path / "c", 2, 4, 6)
    damage(tmp_path / "c" / "4")
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:

        def refusal(**options):
            with pytest.raises(ValueError, match=r"c/4 is damaged: [^\n]+$") as refused:
                checkpoints.restore_params(run.initial.params, **options)
            return str(refused.value).rpartition(": ")[2]

        checkpoints.restore_params(run.initial.params)
        checkpoints.restore_params(run.initial.params, last=2)
        assert refusal(last=4) == "--checkpoint=2 takes those before it"
        only_last = "--config.decoding.average_checkpoints=1 averages only those after it"
        assert refusal(average=2) == only_last
        assert refusal(average=2, last=4) == (
            "--checkpoint=2 --config.decoding.average_checkpoints=1 takes those before it"
        )


def test_the_checkpoint_of_a_step_is_taken_with_those_before_it(run, tmp_path):
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        for step in (2, 4, 6):
            params = jax.tree.map(partial(np.full_like, fill_value=step), run.initial.params)
            checkpoints.save(run.initial._replace(step=np.int32(step), params=params))
        for options, expected in (({}, 6), ({"last": 2}, 2), ({"last": 4, "average": 2}, 3)):
            mean = checkpoints.restore_params(run.initial.params, **options)
            assert {float(leaf.ravel()[0]) for leaf in jax.tree.leaves(mean)} == {expected}
        with pytest.raises(ValueError, match=r"--checkpoint=3 is not in .*, there are: 2, 4, 6$"):
            checkpoints.restore_params(run.initial.params, last=3)
        with pytest.raises(
            ValueError, match=r"one checkpoint up to step 2; .*average_checkpoints=2"
        ):
            checkpoints.restore_params(run.initial.params, last=2, average=2)


def test_a_checkpoint_under_another_step_is_refused(run, tmp_path):
    save_steps(run, tmp_path / "c", 2)
    shutil.copytree(tmp_path / "c" / "2", tmp_path / "c" / "100")
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        with pytest.raises(ValueError, match="c/100 is one of step 2: somebody has copied"):
            checkpoints.restore_last(run.initial)
        with pytest.raises(ValueError, match="c/100 is one of step 2: somebody has copied"):
            checkpoints.restore_params(run.initial.params)


def test_a_checkpoint_of_another_config_is_refused(run, tmp_path):
    def check(config):
        raise ValueError(f"warmup_steps was {config['warmup_steps']}")

    save_steps(run, tmp_path / "c", 2, config={"warmup_steps": 7})
    with Checkpoints(tmp_path / "c", identity=IDENTITY, check_config=check) as checkpoints:
        with pytest.raises(ValueError, match="c/2 is of another run: warmup_steps was 7"):
            checkpoints.restore_last(run.initial)


def test_a_state_with_a_number_that_is_none_is_not_saved(run, tmp_path):
    broken = jax.tree.map(np.array, run.initial)
    broken.params["embedding"]["table"][3, 4] = np.nan
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        with pytest.raises(
            Diverged, match=r"step 0: .*\(params/embedding/table\) and is not saved"
        ):
            checkpoints.save(broken)
        assert checkpoints.steps == []


def test_a_checkpoint_of_before_checksums_is_read_and_told(run, tmp_path, capsys):
    save_steps(run, tmp_path / "c", 2)
    about = tmp_path / "c" / "2" / "about"
    (about / "metadata").write_text(json.dumps(IDENTITY))
    about.rename(about.with_name("identity"))
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        assert checkpoints.restore_last(run.initial) is not None
        assert "c/2 was written before checksums: " in capsys.readouterr().err
        checkpoints.restore_params(run.initial.params)
    with Checkpoints(tmp_path / "c", identity={"vocabulary_fingerprint": "1"}) as checkpoints:
        with pytest.raises(ValueError, match="vocabulary_fingerprint 0123, here it is 1:"):
            checkpoints.restore_last(run.initial)


def test_of_a_damaged_type_nothing_is_left_to_warn_of(run, tmp_path):
    save_steps(run, tmp_path / "c", 2)
    path = tmp_path / "c" / "2" / "progress" / "_METADATA"
    before, _, after = path.read_text().rpartition("np.ndarray")
    path.write_text(f"{before}np.odarray{after}")
    warnings.simplefilter("error")
    for _ in range(2):  # the library holds the last error
        with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
            with pytest.raises(ValueError, match="c/2 is damaged: .*np.odarray"):
                checkpoints.restore_last(run.initial)
        gc.collect()


@pytest.mark.parametrize(
    "left",
    [
        "ArrayHandler.metadata",
        "Store._get_array_metadatas",
        "async_serialize_from_host.<locals>.write_fragment",
    ],
)
def test_of_what_the_library_leaves_unread_nothing_is_told(left, tmp_path):
    warnings.simplefilter("error")
    with Checkpoints(tmp_path / "c", identity=IDENTITY):
        warnings.warn(f"coroutine '{left}' was never awaited", RuntimeWarning, stacklevel=1)
        with pytest.raises(RuntimeWarning):
            warnings.warn("coroutine 'train' was never awaited", RuntimeWarning, stacklevel=1)


def test_saving_asks_jax_no_question_that_hosts_count(run, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", asked.append)
    save_steps(run, tmp_path / "c", 2, 4)
    assert asked == []


def test_in_haste_nobody_waits_for_pending_writes(run, tmp_path, monkeypatch):
    closed = []
    close = ocp.CheckpointManager.close
    monkeypatch.setattr(ocp.CheckpointManager, "close", lambda self: closed.append(self))
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error):
            with Checkpoints(tmp_path / "c", identity=IDENTITY):
                raise error
    assert len(closed) == 1
    close(closed[0])


def test_of_a_full_disk_no_thread_of_the_library_speaks(run, tmp_path, caplog):
    with Checkpoints(tmp_path / "c", identity=IDENTITY):
        for error in (OSError(errno.ENOSPC, "No space left on device"), ValueError("another")):
            asyncio.run(_never_asked(error))
            gc.collect()
    assert "another" in caplog.text
    assert "No space left" not in caplog.text


async def _never_asked(error):
    asyncio.get_running_loop().create_future().set_exception(error)


def test_a_mean_loses_nothing_beside_larger_numbers(run, tmp_path):
    with Checkpoints(tmp_path / "c", identity=IDENTITY) as checkpoints:
        for step, value in enumerate((1e8, 1.0, -1e8), start=1):
            params = jax.tree.map(lambda leaf, of=value: np.full_like(leaf, of), run.initial.params)
            checkpoints.save(run.initial._replace(step=jnp.asarray(step), params=params))
        mean = checkpoints.restore_params(run.initial.params, average=3)
    assert all((leaf == np.float32(1 / 3)).all() for leaf in jax.tree.leaves(mean))
