"""Training is the same however devices, hosts and microbatches share a batch and the parameters."""

import functools

import jax
import numpy as np
import pytest

from t2t_jax.compilation import compile_init, compile_sums, compile_train_step, summed_over
from t2t_jax.devices import make_devices
from t2t_jax.model.families import make_model
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.training.loss import make_loss_fn
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.step import (
    make_eval_step,
    make_gradients,
    make_train_state,
    make_train_step,
)
from tests.model.configs import small
from tests.training.configs import short
from tests.training.test_step import unequal_batch

STEPS = 20
LAYOUTS = {
    "8 x data": dict(data=8),
    "4 x data, 2 x fsdp": dict(data=4, fsdp=2),
    "2 x data, 2 x fsdp, 2 x tensor": dict(data=2, fsdp=2, tensor=2),
    "pmap over 8": dict(data=8, compile="pmap"),
}


@functools.cache
def built(dropout_rate=0.0, optimizer="adam", ensemble_size=1):
    # Every axis that can be cut is even. Without biases, as their gradients are rounding noise.
    sizes = dict(vocabulary_rows=12, d_k=4, d_v=4, attention_biases=False, num_decoder_layers=1)
    model = make_model(small(dropout_rate=dropout_rate, ensemble_size=ensemble_size, **sizes))
    # At a rate that learns: at a wild one rounding errors grow from step to step.
    config = short(steps=STEPS, learning_rate_scale=0.1, optimizer=optimizer)
    made = make_optimizer(config, 12, matrices_at_once=True)
    return model, made, lambda seed: make_train_state(model, made, seed)


@functools.cache
def trained(
    microbatches=1, dropout_rate=0.0, chunk_tokens=0, kind="adam", ensemble_size=1, **layout
):
    """Losses of each step, and the parameters afterwards."""
    model, optimizer, make_state = built(dropout_rate, kind, ensemble_size)
    devices = make_devices(**layout)
    loss_fn = make_loss_fn(model, 0.1, chunk_tokens)
    state = compile_init(devices, make_state, 7)
    train_step = compile_train_step(
        devices,
        make_train_step(
            loss_fn,
            optimizer,
            microbatches=microbatches,
            over_devices=summed_over(devices),
        ),
        state,
    )
    losses = []
    for _ in range(STEPS):
        state, metrics = train_step(state, devices.put_batch(unequal_batch(rows=16)))
        losses.append(metrics.loss / metrics.tokens)
    return np.array(jax.device_get(losses)), jax.device_get(state.params)


def assert_same(actual, expected):
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), actual[1], expected[1]
    )


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_twenty_steps_on_any_layout_are_those_of_one_device(layout):
    losses = trained(data=1)[0]
    assert losses[-1] < 0.9 * losses[0]
    assert_same(trained(**layout), trained(data=1))


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_rounded_products_train_on_any_layout(layout):
    one, exact = trained(data=1, matmul_precision="default")[0], trained(**layout)[0]
    losses = trained(**layout, matmul_precision="default")[0]
    np.testing.assert_allclose(losses, one, rtol=2e-3)
    np.testing.assert_allclose(losses, exact, rtol=1e-2)
    assert np.abs(losses / exact - 1).max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adamw", "adafactor", "lion", "muon"])
def test_every_optimizer_makes_the_steps_of_one_device(kind):
    layout = LAYOUTS["2 x data, 2 x fsdp, 2 x tensor"]
    assert_same(trained(kind=kind, **layout), trained(kind=kind, data=1))


@pytest.mark.parametrize(
    ("microbatches", "layout"),
    [(2, dict(data=1)), (4, dict(data=1)), (4, dict(data=2, fsdp=2))],
    ids=["2", "4", "4 on 2 x 2"],
)
def test_twenty_steps_in_microbatches_are_those_of_whole_batches(microbatches, layout):
    assert_same(trained(microbatches=microbatches, **layout), trained(data=1))


@functools.cache
def gradients_on_one_device():
    model, *_ = built()
    return jax.jit(make_gradients(make_loss_fn(model, 0.1)))


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_gradients_are_summed_over_all_parts(layout, microbatches):
    """Their scale, which these optimizers do not see, but clipping and epsilon do."""
    model, _, make_state = built()
    loss_fn, batch = make_loss_fn(model, 0.1), unequal_batch(rows=16)
    devices = make_devices(**layout)
    gradients = make_gradients(
        loss_fn, microbatches=microbatches, over_devices=summed_over(devices)
    )
    state = compile_init(devices, make_state, 7)
    actual, _ = jax.jit(gradients)(state, devices.put_batch(batch))
    expected, _ = gradients_on_one_device()(jax.device_get(state), batch)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5),
        jax.device_get(actual),
        jax.device_get(expected),
    )


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_dropout_and_chunks_of_the_loss_are_the_same_on_any_layout(layout):
    options = dict(dropout_rate=0.3, chunk_tokens=32)
    assert_same(trained(**options, **layout), trained(**options, data=1))


@pytest.mark.slow
@pytest.mark.parametrize("layout", list(LAYOUTS.values())[2:], ids=list(LAYOUTS)[2:])
def test_ensembles_are_the_same_on_any_layout(layout):
    options = dict(ensemble_size=2, dropout_rate=0.3)
    assert_same(trained(**options, **layout), trained(**options, data=1))


@pytest.mark.parametrize("layout", [dict(data=1), dict(data=4, compile="pmap")], ids=["1", "pmap"])
def test_a_source_of_nothing_is_cut_too(layout):
    """Of a language model: S = 0, but the devices and microbatches have their rows of it."""
    model = LanguageModel(
        small(family="decoder_only", num_decoder_layers=1, attention_biases=False)
    )
    optimizer = make_optimizer(short(), 12)
    batch = unequal_batch(rows=16)
    batch = batch._replace(source_ids=batch.source_ids[:, :0])

    def loss_after_a_step(devices, microbatches):
        state = compile_init(devices, lambda seed: make_train_state(model, optimizer, seed), 7)
        step = make_train_step(
            make_loss_fn(model, 0.1),
            optimizer,
            microbatches=microbatches,
            over_devices=summed_over(devices),
        )
        compiled = compile_train_step(devices, step, state)
        state, _ = compiled(state, devices.put_batch(batch))
        return float(compiled(state, devices.put_batch(batch))[1].loss)

    expected = loss_after_a_step(make_devices(1), 1)
    assert loss_after_a_step(make_devices(**layout), 2) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("layout", list(LAYOUTS.values())[2:], ids=list(LAYOUTS)[2:])
def test_an_evaluation_is_the_same_on_any_layout(layout):
    model, _, make_state = built()
    params = jax.jit(make_state)(7).params
    batch = unequal_batch(rows=16)
    devices = make_devices(**layout)
    evaluate = compile_sums(devices, make_eval_step(make_loss_fn(model, 0.1)))
    actual = evaluate(devices.put(params), devices.put_batch(batch))
    expected = jax.jit(make_eval_step(make_loss_fn(model, 0.1)))(params, batch)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
