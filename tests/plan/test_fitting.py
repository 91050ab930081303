"""What does not fit gets more microbatches, then recomputes layers, then gets advice."""

import pytest

from t2t_jax.data.batches.assembling import BatchShape
from t2t_jax.plan.facts import Program, shared, used_and_limit
from t2t_jax.plan.fitting import fitted
from t2t_jax.plan.hardware import topology
from tests.plan.stand_in import GIB, StandIn, sections

SHAPE = BatchShape(64, 32, 32)


def program(name="v5e-8", **changes):
    on = topology(name)
    return Program(shared(sections(**changes), on), on, SHAPE)


def test_what_fits_is_left_as_it_is():
    compiler = StandIn(activations=GIB)
    found = fitted(program(), compiler)
    assert compiler.tried == [(1, False)]
    assert found.facts.fits and not found.advice


def test_the_fewest_microbatches_that_fit_are_found():
    compiler = StandIn(activations=40 * GIB, speaks=False)
    found = fitted(program(), compiler)
    assert compiler.tried == [(1, False), (2, False), (4, False)]
    assert (found.microbatches, found.rematerialise) == (4, False)


def test_what_the_compiler_says_of_memory_spares_programs_that_cannot_fit():
    compiler = StandIn(activations=100 * GIB)
    assert fitted(program(), compiler).microbatches == 8
    assert compiler.tried == [(1, False), (8, False)]


def test_layers_are_computed_again_only_where_rows_one_by_one_do_not_fit():
    compiler = StandIn(activations=200 * GIB)
    found = fitted(program(), compiler)  # 64 rows on 8 chips: 8 microbatches at most
    assert compiler.tried == [(1, False), (8, False), (8, True)]
    assert (found.microbatches, found.rematerialise) == (8, True)


def test_the_microbatches_of_the_config_are_where_it_begins():
    compiler = StandIn()
    fitted(program(**{"training.microbatches": 4}), compiler)
    assert compiler.tried == [(4, False)]


def test_what_never_fits_is_an_answer_with_advice():
    found = fitted(program(), StandIn(activations=2_000 * GIB))
    assert not found.facts.fits
    assert "of 16.00 GiB on a v5e with 8 microbatches and layers computed again" in found.advice
    assert "data.max_length" in found.advice


def test_a_state_that_is_too_large_is_known_after_one_program():
    compiler = StandIn(state=20 * GIB)
    found = fitted(program(), compiler)
    assert len(compiler.asked) == 1
    assert "parameters and optimizer alone take 20.00 GiB" in found.advice
    assert "cut the model over the chips with devices.fsdp=N" in found.advice
    whole = fitted(program(**{"devices.data": 1, "devices.fsdp": 8}), StandIn(state=20 * GIB))
    assert "rent more chips" in whole.advice


@pytest.mark.parametrize(
    ("words", "used", "limit"),
    [
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory "
            "space hbm. Used 17.94G of 15.75G hbm. Exceeded hbm capacity by 2.19G.",
            int(17.94 * GIB),
            int(15.75 * GIB),
        ),
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
            "temporaries (48.72G) exceeds available HBM (15.75G).",
            int(48.72 * GIB) + GIB,  # and the state
            int(15.75 * GIB),
        ),
        ("RESOURCE_EXHAUSTED: something else", 0, 0),
    ],
)
def test_the_words_of_the_compiler_are_understood(words, used, limit):
    assert used_and_limit(words, GIB) == (used, limit)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"devices.fsdp": 3}, "devices.fsdp=3, devices.tensor=1: v5e-8 has 8 chips"),
        ({"devices.data": 4}, "devices.data=4.*none is left idle"),
        ({"devices.fsdp": 0}, "devices.fsdp=0 must be at least 1"),
        ({"devices.data": -2}, "devices.data=-2 must be at least 1"),
        ({"devices.compile": "pmap"}, "devices.compile='pmap' is not planned for"),
    ],
)
def test_chips_that_cannot_be_shared_so_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        program(**changes)
