"""Differences between two devices: none if they agree, and the right size if not."""

import functools

import jax
import pytest

from experiments.benchmarks import agreement
from t2t_jax.decoding import translate
from t2t_jax.devices import Devices, make_devices
from t2t_jax.runs.sections import read_sections
from tests.runs.configs import smallest_config

STEPS = 3


@pytest.fixture(scope="module")
def sections(tmp_path_factory):
    return read_sections(smallest_config(tmp_path_factory.mktemp("cache")))


@pytest.mark.slow
def test_two_devices_of_a_cpu_agree_to_the_bit(sections):
    found = agreement.agreement(sections, STEPS, jax.devices()[1])
    assert found == agreement.Agreement(
        loss=0, parameters=0, tokens=1, is_repeated=True, is_found_again=True, memory=None
    )


@pytest.mark.slow
def test_the_cpu_beside_a_gpu_has_no_kernel_of_the_gpu(monkeypatch, tmp_path):
    changes = {"model.dtype": "bfloat16", "model.attention_kernel": "fused"}
    kernels = []

    for name in ("train", "search"):
        found = getattr(agreement, name)
        monkeypatch.setattr(agreement, name, functools.partial(_noting, kernels, found))
    agreement.agreement(read_sections(smallest_config(tmp_path, **changes)), 1, jax.devices()[1])
    assert kernels == ["einsum", "fused", "fused", "fused", "einsum", "fused"]


@pytest.mark.slow
def test_an_ensemble_is_compared_in_one_form(monkeypatch, tmp_path):
    """As where the other device is a GPU."""
    monkeypatch.setattr(
        Devices, "are_gpus", property(lambda of: jax.devices()[0] not in of.mesh.devices)
    )
    monkeypatch.setattr(translate, "searches_members_at_once", lambda config: True)
    sections = read_sections(smallest_config(tmp_path, **{"model.ensemble_size": 2}))
    found = agreement.agreement(sections, STEPS, jax.devices()[1])
    assert found.loss < 1e-5 and 0 < found.parameters < 0.01 and found.tokens == 1
    assert found.is_repeated and found.is_found_again


def _noting(kernels, function, sections, *others):
    kernels.append(sections.model.attention_kernel)
    return function(sections, *others)


@pytest.mark.parametrize("peaks, memory", [((5, 30), 1.5), ((30, 30), None), ((None, None), None)])
def test_the_peak_of_something_earlier_is_not_taken_for_its_own(
    monkeypatch, sections, peaks, memory
):
    left = list(peaks)
    monkeypatch.setattr(Devices, "peak_memory", lambda _: left.pop(0))
    monkeypatch.setattr("t2t_jax.compilation.memory_needed", lambda *_: 20)
    assert agreement.train(sections, make_devices(1, devices=jax.devices()[:1]), 1).memory == memory


@pytest.mark.slow
def test_what_is_otherwise_is_told(monkeypatch, sections):
    train, calls = agreement.train, []

    def another_each_time(sections, devices, steps):
        calls.append(devices)
        trained = train(sections, devices, steps)
        wrong = len(calls) - 1  # the first is the CPU's
        return trained._replace(
            losses=trained.losses * (1 + 0.25 * wrong),
            params=jax.tree.map(lambda own, old: own + wrong * (own - old), *trained[2:0:-1]),
        )

    monkeypatch.setattr(agreement, "train", another_each_time)
    found = agreement.agreement(sections, STEPS, jax.devices()[1])
    assert found.loss == pytest.approx(0.25) and found.parameters == pytest.approx(1)
    assert not found.is_repeated and found.is_found_again
