"""A GPU computes what a CPU does, the same each time, within the predicted memory."""

import functools

import jax
import pytest

from configs import tiny
from experiments.benchmarks.agreement import agreement
from t2t_jax.runs.sections import read_sections

pytestmark = pytest.mark.gpu

STEPS = 20


@pytest.fixture(scope="module", autouse=True)
def all_optimisations():
    if jax.default_backend() != "gpu":
        pytest.skip(f"there is no GPU here, JAX computes on {jax.default_backend()}")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@functools.cache
def found(**changes):
    config = tiny.get_config()
    config.update_from_flattened_dict(changes)
    return agreement(read_sections(config), STEPS)


def in_float32(**changes):
    return found(**{"model.dtype": "float32"} | changes)


def in_bfloat16(**changes):
    return found(**{"model.dtype": "bfloat16"} | changes)


def test_float32_is_that_of_a_cpu_to_rounding():
    assert in_float32().loss < 1e-4 and in_float32().parameters < 0.02


def test_the_fast_products_are_seen_to_be_others():
    assert in_float32(**{"devices.matmul_precision": "default"}).loss > in_float32().loss


def test_bfloat16_is_that_of_a_cpu_to_its_own_rounding():
    assert in_bfloat16().loss < 0.02


@pytest.mark.parametrize("batching", ["bucketed", "packed"])
def test_the_fused_kernel_is_attention_to_the_rounding_of_bfloat16(batching):
    fused = {"model.attention_kernel": "fused", "data.batching": batching}
    assert in_bfloat16(**fused).loss < 0.02


def test_members_of_an_ensemble_at_once_are_those_one_after_another_on_a_cpu():
    ensemble = in_float32(**{"model.ensemble_size": 2})
    assert ensemble.loss < 1e-4 and ensemble.parameters < 0.02 and ensemble.tokens > 0.99
    assert ensemble.is_repeated and ensemble.is_found_again


@pytest.mark.parametrize("of", [in_float32, in_bfloat16])
def test_two_trainings_and_two_searches_are_the_same_bits(of):
    assert of().is_repeated and of().is_found_again


def test_searches_find_what_a_cpu_finds():
    assert in_float32().tokens > 0.99


def test_a_step_takes_the_memory_that_its_compiler_has_said():
    """In float32, the first here: JAX's peak is of all that the process has done."""
    memory = in_float32().memory
    assert memory is not None and memory < 1.5
