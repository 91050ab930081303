"""A batch with a NaN loss, at a random step, under each policy."""

import functools
import random
from pathlib import Path

import jax
import numpy as np

from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.nonfinite import Diverged
from tests.faults.count import Count
from tests.training.runs import IDENTITY, Run
from tests.training.test_nonfinite import after, assert_same, feed_with, learned, poisonable

_STEPS, _STEPS_BETWEEN_CHECKPOINTS = 12, 3
POLICIES = {
    "stop": "told; what was saved is intact; without the NaN, the bits of an undisturbed run",
    "skip": "the bits of a run without that step",
    "rewind": "the bits of a run from the last checkpoint past the batch",
}


@functools.cache
def _run(max_bad_steps: int) -> Run:
    run = Run()
    run.train_step = run.compiled(poisonable(run.loss_fn), max_bad_steps=max_bad_steps)
    return run


def plants(directory: Path, num: int, policy: str, seed: int) -> Count:
    """Plants NaN into a random batch; the run must be the one that its policy promises."""
    draws = random.Random(f"{seed} {policy}")
    run = _run(int(policy == "skip"))
    lost = []
    for number in range(num):
        bad = draws.randrange(_STEPS)
        try:
            _check(run, directory / str(number), policy, bad)
        except (AssertionError, Diverged, ValueError) as error:
            lost.append(f"policy {policy}, NaN in batch {bad}: {error}")
    return Count(f"NaN in a random batch, policy {policy}", num, tuple(lost), POLICIES[policy])


def _check(run: Run, workdir: Path, policy: str, bad: int) -> None:
    options = dict(
        steps=_STEPS,
        checkpoint_every_steps=_STEPS_BETWEEN_CHECKPOINTS,
        nonfinite=policy,
        max_nonfinite=1,
    )
    if policy == "stop":
        _check_stopped(run, workdir, bad, options)
        _, state = run.train(workdir, **options)
    else:
        _, state = run.train(workdir, feed=feed_with(bad), **options)
    numbers: list[int | None] = list(range(_STEPS))
    if policy == "skip":
        numbers[bad] = None
    elif policy == "rewind":
        saved = bad - bad % _STEPS_BETWEEN_CHECKPOINTS
        numbers[saved:] = range(bad + 1, bad + 1 + _STEPS - saved)
    assert_same(learned(state), learned(after(run, *numbers)))


def _check_stopped(run: Run, workdir: Path, bad: int, options: dict) -> None:
    try:
        run.train(workdir, feed=feed_with(bad), **options)
    except Diverged as error:
        assert f"of batch {bad} are not finite" in str(error), error
    else:
        raise AssertionError("it was not told")
    with Checkpoints(workdir / "checkpoints", identity=IDENTITY) as checkpoints:
        state = checkpoints.restore_last(run.initial)
    if state is not None:
        assert int(state.step) <= bad
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
