"""Every optimizer against its published update in numpy; each learns, resumes, and is sharded."""

from functools import partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax.contrib import muon

from t2t_jax.devices import make_devices
from t2t_jax.model.ensemble import stacked
from t2t_jax.training.config import Optimizer
from t2t_jax.training.loop import Stopped
from t2t_jax.training.optimizer import _sides, make_optimizer, members_at_once
from tests.training.configs import short
from tests.training.runs import Run, batch
from tests.training.test_loop import interrupting
from tests.training.test_schedule import rate

OTHERS = [kind for kind in get_args(Optimizer) if kind != "adam"]
DECAY = 0.3
# The input and the output of a matrix, as axes: those of a projection's heads are taken together.
MATRICES = {
    "query/kernel": ((5, 2, 3), (5, 6)),  # D H K
    "output/kernel": ((2, 3, 5), (6, 5)),  # H K D
    "inner/kernel": ((128, 130), (128, 130)),  # D F; long enough for a factored second moment
    "outer/kernel": ((7, 5), (7, 5)),  # F D
}
SHAPES = {name: shape for name, (shape, _) in MATRICES.items()} | {
    "query/bias": (2, 3),
    "norm/scale": (5,),
    "embedding/table": (9, 5),
}


def rms(x):
    return np.sqrt(np.mean(x**2))


class Adam:
    """As published; with `nesterov`, as Dozat 2016."""

    nesterov = False

    def __init__(self, name):
        self.m = self.v = 0.0

    def update(self, g, p, t):
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.98 * self.v + 0.02 * g**2
        m = self.m / (1 - 0.9**t)
        if self.nesterov:
            m = 0.9 * self.m / (1 - 0.9 ** (t + 1)) + 0.1 * g / (1 - 0.9**t)
        return m / (np.sqrt(self.v / (1 - 0.98**t)) + 1e-9)


class Adafactor:
    """Algorithms 4 and 5 of Shazeer and Stern 2018, without momentum."""

    def __init__(self, name):
        self.is_factored = name == "inner/kernel"
        self.v = self.row = self.column = 0.0

    def update(self, g, p, t):
        beta = 1 - t**-0.8
        if self.is_factored:
            self.row = beta * self.row + (1 - beta) * np.mean(g**2, axis=1, keepdims=True)
            self.column = beta * self.column + (1 - beta) * np.mean(g**2, axis=0, keepdims=True)
            self.v = self.row * self.column / np.mean(self.row)
        else:
            self.v = beta * self.v + (1 - beta) * g**2
        u = g / np.sqrt(self.v)
        return max(1e-3, rms(p)) * u / max(1.0, rms(u))


class Lion:
    def __init__(self, name):
        self.m = 0.0

    def update(self, g, p, t):
        moved = np.sign(0.9 * self.m + 0.1 * g)
        self.m = 0.98 * self.m + 0.02 * g
        return moved


class Muon:
    def __init__(self, name):
        self.shape = MATRICES[name][1] if name in MATRICES else None
        self.rest = Adam(name)
        self.rest.nesterov = True
        self.m = 0.0

    def update(self, g, p, t):
        if self.shape is None:
            return self.rest.update(g, p, t)
        self.m = 0.95 * self.m + 0.05 * g
        x = 0.95 * self.m / (1 - 0.95 ** (t + 1)) + 0.05 * g / (1 - 0.95**t)
        # Five steps of Newton and Schulz, on the singular values.
        u, s, v = np.linalg.svd(x.reshape(self.shape), full_matrices=False)
        s /= np.linalg.norm(s)
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        return (0.2 * max(self.shape) ** 0.5 * (u * s) @ v).reshape(g.shape)


WRITTEN_OUT = {"adamw": Adam, "adafactor": Adafactor, "lion": Lion, "muon": Muon}


@pytest.mark.parametrize("kind", OTHERS)
def test_two_updates_equal_the_published_ones(kind):
    config = short(warmup_steps=3, optimizer=kind, weight_decay=DECAY)
    optimizer = make_optimizer(config, d_model=16)
    rng = np.random.default_rng(0)
    params = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
    by_hand = {name: WRITTEN_OUT[kind](name) for name in SHAPES}
    state = optimizer.init(_float32(params))
    for t in (1, 2):
        grads = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
        updates, state = optimizer.update(_float32(grads), state, _float32(params))
        for name in SHAPES:
            wanted = by_hand[name].update(grads[name], params[name], t)
            wanted += DECAY * params[name] * (name in MATRICES)
            wanted *= -rate(t, config, 16)
            np.testing.assert_allclose(updates[name], wanted, rtol=1e-3, atol=1e-6, err_msg=name)
            params[name] = params[name] + wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", get_args(Optimizer))
def test_members_updated_at_once_are_as_one_after_another(kind):
    optimizer = make_optimizer(short(warmup_steps=3, optimizer=kind), d_model=16)
    rng = np.random.default_rng(0)

    def some():
        own = [{name: rng.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(3)]
        return _float32({f"members_{number}": each for number, each in enumerate(own)})

    params = some()
    state = optimizer.init(params)
    other = stacked(state)
    for _ in range(2):
        grads = some()
        expected, state = optimizer.update(grads, state, params)
        at_once = members_at_once(optimizer).update(stacked(grads), other, stacked(params))
        actual, other = at_once
        close = partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-6)
        jax.tree.map(close, (actual, other), stacked((expected, state)))
        params = optax.apply_updates(params, expected)


@pytest.mark.parametrize("at_once", [False, True])
def test_muon_is_that_of_optax_and_so_is_its_state(at_once):
    config = short(optimizer="muon", weight_decay=0.1, warmup_steps=3)
    ours = make_optimizer(config, d_model=16, matrices_at_once=at_once)
    theirs = muon(
        lambda updates_so_far: rate(updates_so_far + 1, config, 16),
        beta=0.95,
        eps=config.adam_epsilon,
        weight_decay=0.1,
        adam_b1=config.adam_beta1,
        adam_b2=config.adam_beta2,
        muon_weight_dimension_numbers=_sides,
        consistent_rms=0.2,
    )
    rng = np.random.default_rng(0)
    shapes = SHAPES | {f"other/{name}": shape for name, shape in SHAPES.items()}
    params = _float32({name: rng.normal(size=shape) for name, shape in shapes.items()})
    states = ours.init(params), theirs.init(params)
    for _ in range(3):
        grads = _float32({name: rng.normal(size=shape) for name, shape in shapes.items()})
        found, state = ours.update(grads, states[0], params)
        expected, other = theirs.update(grads, states[1], params)
        close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-7)
        jax.tree.map(close, (found, state), (expected, other))
        states = state, other
        params = optax.apply_updates(params, found)


def _float32(tree):
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)


@pytest.mark.parametrize("kind", ["adam", "adamw", "lion", "muon"])
def test_gradients_are_clipped_by_the_norm_of_all_together(kind):
    optimizer = make_optimizer(short(optimizer=kind, gradient_clip_norm=1.0), 16)

    new = 0.02 if kind == "lion" else 0.1  # the share of a gradient in the mean that is kept

    def gradients_seen(a, b):
        grads = {"a": jnp.full(1, a), "b": jnp.full(1, b)}
        state = _by_name(optimizer.update(grads, optimizer.init(grads), grads)[1])
        return [float(leaf[0]) / new for path, leaf in state if path.endswith(("mu/a", "mu/b"))]

    # What is longer keeps its direction; what lies within the norm stays.
    assert gradients_seen(30.0, 40.0) == pytest.approx([0.6, 0.8])
    assert gradients_seen(0.3, 0.4) == pytest.approx([0.3, 0.4])


@pytest.fixture(scope="module", params=OTHERS)
def other(request):
    return Run(optimizer=request.param, weight_decay=0.01, gradient_clip_norm=1.0)


def test_every_optimizer_learns(other):
    state, losses = jax.tree.map(jnp.asarray, other.initial), []
    for _ in range(20):
        state, metrics = other.train_step(state, batch(0))
        losses.append(float(metrics.loss / metrics.tokens))
    assert losses[-1] < 0.8 * losses[0]


def test_every_optimizer_goes_on_where_it_stopped(other, tmp_path):
    _, expected = other.train(tmp_path / "never")
    with pytest.raises(Stopped):
        other.train(tmp_path / "stopped", feed=interrupting(after=3))
    _, state = other.train(tmp_path / "stopped")
    jax.tree.map(np.testing.assert_array_equal, state, expected)  # bit for bit


def test_its_state_is_cut_over_devices_as_the_parameters_are(other):
    devices = make_devices(data=2, fsdp=2, tensor=2)
    layouts = dict(_by_name(devices.layout(other.initial.params)))
    shapes = {name: leaf.shape for name, leaf in _by_name(other.initial.params)}
    state = zip(
        _by_name(other.initial.opt_state),
        _by_name(devices.layout(other.initial.opt_state)),
        strict=True,
    )
    num_cut = 0
    for (path, leaf), (_, layout) in state:
        name = next((name for name in shapes if path.endswith(f"/{name}")), None)
        if name is not None and leaf.shape == shapes[name]:
            assert layout == layouts[name]
            num_cut += any(layout.spec)
    assert num_cut >= sum(any(layout.spec) for layout in layouts.values()) > 0


def _by_name(tree):
    return [
        (jax.tree_util.keystr(path, simple=True, separator="/"), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"optimizer": "sgd"}, r"training\.optimizer='sgd' is not one of 'adam', 'adamw'"),
        ({"weight_decay": 0.1}, r"weight_decay=0\.1 must be 0 with optimizer='adam'; 'adamw' is"),
        ({"optimizer": "lion", "weight_decay": -0.1}, r"weight_decay=-0\.1 must be at least 0"),
        ({"gradient_clip_norm": -1.0}, r"gradient_clip_norm=-1\.0 must be at least 0"),
    ],
)
def test_what_has_no_sense_is_refused_in_words(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        short(**changes)
