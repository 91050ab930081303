"""Models that are trained apart and translate together."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import tiny
from t2t_jax.compilation import compile_init, compile_train_step
from t2t_jax.data.batches.batches import Batch
from t2t_jax.decoding.translate import make_decode
from t2t_jax.devices import Devices, make_devices
from t2t_jax.model.ensemble import MembersAtOnce, member_axes, params_of_members, stacked, unstacked
from t2t_jax.model.families import initial_params, make_model, num_parameters
from t2t_jax.model.interface import Inputs
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.state_form import has_members_at_once
from t2t_jax.runs.steps import state_and_step
from t2t_jax.training.loss import make_loss_fn, shift_right
from tests.model.configs import (
    logits_of,
    model_and_variables,
    random_variables,
    run,
    small,
    some_ids,
)
from tests.model.probes import step_by_step

FAMILIES = ["encoder_decoder", "recurrent"]


def members(family, size=2, **changes):
    """An ensemble, one of its members, and the random parameters of both: whole, and by member."""
    ensemble, variables = model_and_variables(family=family, ensemble_size=size, **changes)
    params = variables["params"]
    return ensemble, params, make_model(small(family=family, **changes)), params_of_members(params)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_the_mean_of_the_members(family):
    ensemble, params, member, of_members = members(family, size=3)
    source, target = some_ids(2, 6), some_ids(2, 5, seed=1)
    actual = run(ensemble, {"params": params}, source, target)
    each = [run(member, {"params": own}, source, target) for own in of_members]
    np.testing.assert_allclose(actual, np.mean(each, axis=0), atol=1e-5)
    assert np.abs(each[0] - each[1]).max() > 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_factors_and_steps_give_the_same_logits(family):
    ensemble, params, *_ = members(family, size=3, output_bias=True)
    source, target = some_ids(2, 6), some_ids(2, 5, seed=1)
    variables = {"params": params}
    expected = run(ensemble, variables, source, target)
    np.testing.assert_allclose(logits_of(ensemble, variables, source, target), expected, atol=1e-4)
    stepwise, _ = step_by_step(ensemble, variables, target, source)
    np.testing.assert_allclose(stepwise, expected, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_members_at_once_compute_what_they_do_one_after_another(family):
    ensemble, params, *_ = members(family, size=3, output_bias=True)
    inputs = Inputs(some_ids(2, 6), some_ids(2, 5, seed=1))
    bound = ensemble.bind({"params": params})
    expected = bound.features(inputs, deterministic=True)
    actual = MembersAtOnce(ensemble, params).features(inputs)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_members_at_once_find_the_same_translations(family, beam_size):
    ensemble = make_model(small(family=family, ensemble_size=3))
    params = random_variables(ensemble, seed=3)["params"]  # with others all outputs are equal
    config = read_sections(tiny.get_config()).decoding
    config = dataclasses.replace(config, beam_size=beam_size, max_extra_tokens=4)
    found = [
        jax.jit(make_decode(ensemble, config, 11, at_once))(params, some_ids(4, 6))
        for at_once in (False, True)
    ]
    np.testing.assert_array_equal(*(each.ids for each in found))
    np.testing.assert_allclose(*(each.scores for each in found), atol=1e-5)
    assert len(np.unique(found[0].ids[:, 0], axis=0)) > 1


def test_in_bfloat16_factors_are_not_rounded_once_more():
    ensemble, params, *_ = members("encoder_decoder", size=3, output_bias=True, dtype="bfloat16")
    large = jax.tree.map(jnp.copy, params)
    for own in params_of_members(large):
        own["output"]["bias"] += 100  # of which a third, rounded to bfloat16, is 0.1 too much
    source, target = some_ids(2, 6), some_ids(2, 5, seed=1)
    expected = run(ensemble, {"params": large}, source, target)
    actual = logits_of(ensemble, {"params": large}, source, target)
    np.testing.assert_allclose(actual, expected, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("tokens_per_chunk", [0, 3])
def test_each_member_is_trained_as_it_would_be_alone(tokens_per_chunk, at_once):
    ensemble, params, member, of_members = members("encoder_decoder", dropout_rate=0.1)
    batch = Batch(np.asarray(some_ids(2, 6)), np.asarray(some_ids(2, 5, seed=1)))
    key = jax.random.key(3)

    def grads_of(model, params, key):
        loss_fn = make_loss_fn(model, 0.1, tokens_per_chunk, members_at_once=at_once)
        return jax.grad(loss_fn, has_aux=True)(params, batch, key)

    grads, metrics = grads_of(ensemble, stacked(params) if at_once else params, key)
    grads = unstacked(grads, params) if at_once else grads
    alone = [
        grads_of(member, own, jax.random.fold_in(key, number))
        for number, own in enumerate(of_members)
    ]
    for actual, (expected, _) in zip(params_of_members(grads), alone, strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), actual, expected)
    for name, sums in metrics._asdict().items():
        expected = np.mean([getattr(each, name) for _, each in alone])
        np.testing.assert_allclose(sums, expected, rtol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_step_on_gpus_is_that_of_other_devices(monkeypatch, optimizer):
    """With dropout, eight devices and microbatches."""
    config = tiny.get_config()
    changes = {"model.ensemble_size": 2, "training.optimizer": optimizer, "model.dropout_bits": 8}
    changes |= {f"model.{name}": 16 for name in ("d_model", "d_ff", "d_k", "d_v")}
    changes |= {f"model.num_{side}_layers": 1 for side in ("encoder", "decoder")}
    changes |= {"model.dropout_rate": 0.3}
    config.update_from_flattened_dict(changes | {"training.microbatches": 2})
    ids = np.asarray(some_ids(16, 6))
    states = []
    for are_gpus in (False, True):
        monkeypatch.setattr(Devices, "are_gpus", are_gpus)
        devices = make_devices(data=8)
        make_state, step = state_and_step(read_sections(config), devices)
        state = compile_init(devices, make_state, 0)
        compiled = compile_train_step(devices, step, state)
        for _ in range(2):
            state, _ = compiled(state, devices.put_batch(Batch(ids, ids)))
        states.append(jax.device_get(unstacked(state, states[0]) if are_gpus else state))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), *states)


@pytest.mark.parametrize(
    "changes", [{"training.gradient_clip_norm": 1.0}, {"devices.fsdp": 2}, {"devices.tensor": 2}]
)
def test_what_members_at_once_cannot_do_is_done_one_after_another(monkeypatch, changes):
    config = tiny.get_config()
    config.update_from_flattened_dict({"model.ensemble_size": 2})
    monkeypatch.setattr(Devices, "are_gpus", True)

    def at_once():
        sections = read_sections(config)
        return has_members_at_once(
            sections, make_devices(fsdp=sections.devices.fsdp, tensor=sections.devices.tensor)
        )

    assert at_once()
    config.update_from_flattened_dict(changes)
    assert not at_once()


def test_members_lie_along_an_axis_and_come_back():
    tree = {
        "mean": {f"members_{n}": {"a": jnp.full(3, n)} for n in range(11)},
        "count": jnp.ones(()),
    }
    arrays = stacked(tree)
    np.testing.assert_array_equal(arrays["mean"]["a"][:, 0], np.arange(11))
    assert arrays["count"] is tree["count"]
    assert member_axes(tree) == {"mean": 0, "count": None}
    jax.tree.map(np.testing.assert_array_equal, unstacked(arrays, tree), tree)


@pytest.mark.parametrize("at_once", [False, True])
def test_without_dropout_keys_the_sums_are_those_of_the_mean_of_logits(at_once):
    ensemble, params, *_ = members("encoder_decoder")
    source, target = some_ids(2, 6), some_ids(2, 5, seed=1)
    batch = Batch(np.asarray(source), np.asarray(target))
    loss_fn = make_loss_fn(ensemble, 0.0, members_at_once=at_once)
    loss, metrics = loss_fn(stacked(params) if at_once else params, batch, None)
    logits = logits_of(ensemble, {"params": params}, source, shift_right(target))
    expected = -np.take_along_axis(jax.nn.log_softmax(logits), target[..., None], axis=-1).sum()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert loss == metrics.loss == metrics.negative_log_likelihood


def test_members_begin_apart_and_are_counted():
    config = small(ensemble_size=3)
    params = initial_params(make_model(config), jax.random.key(0))
    tables = [own["embedding"]["table"] for own in params_of_members(params)]
    assert all(np.abs(tables[i] - tables[i - 1]).max() > 0.1 for i in range(3))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == num_parameters(config)


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_only_models_that_translate_do_so_together(family):
    with pytest.raises(ValueError, match="ensemble_size=2 does not go with model.family='"):
        small(family=family, ensemble_size=2)
