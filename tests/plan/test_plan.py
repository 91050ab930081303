"""Hours, dollars and memory of a run follow from the facts of its programs."""

import datetime
import math
import typing

import pytest

from t2t_jax.data.batches.assembling import BatchShape
from t2t_jax.plan import workload as workloads
from t2t_jax.plan.hardware import topology
from t2t_jax.plan.plan import plan
from t2t_jax.plan.prices import Price, Prices
from t2t_jax.plan.roofline import Work, seconds
from t2t_jax.plan.workload import Workload
from t2t_jax.training.config import Optimizer
from t2t_jax.training.operations import step_operations
from tests.plan.stand_in import GIB, StandIn, sections, settings


def make(tmp_path, name="v5e-8", compiler=None, run=None, **options):
    return plan(run or sections(), topology(name), settings(tmp_path, compiler, **options))


def test_the_programs_are_the_largest_step_the_commonest_and_the_widest_search(tmp_path):
    compiler = StandIn()
    make(tmp_path, compiler=compiler)
    run = sections()
    largest, commonest, search = compiler.asked
    assert largest.shape.target_length == run.data.max_length
    assert commonest.shape.target_length == min(32, run.data.max_length)
    assert search.is_search and search.shape.source_length == 16
    assert search.shape.rows == run.decoding.tokens_per_batch // run.decoding.beam_size // 16


def test_the_largest_alone_is_one_program(tmp_path):
    compiler = StandIn()
    made = make(tmp_path, compiler=compiler, all_programs=False)
    assert len(compiler.asked) == 1
    assert "the search was not compiled" in made.notes


def test_its_operations_are_the_exact_ones_of_padded_batches(tmp_path):
    made = make(tmp_path)
    run = sections()
    (usual, *_), _ = workloads.workload(run).shapes, None
    rows = -(-usual.rows // 8) * 8
    exact = step_operations(run.model).of(rows, usual.source_length, usual.target_length)
    assert made.operations == pytest.approx(float(exact), rel=0.02)


def test_from_long_sentences_to_short_ones_attention_is_taken_off(tmp_path):
    def bytes_of(heads):
        run = sections(**{"model.num_heads": heads, "data.max_length": 256})
        made = make(tmp_path, name="v5e-1", run=run, all_programs=False)
        return made.step_parts["memory"]

    assert bytes_of(32) < bytes_of(4)  # of the same bytes at the longest


def test_a_fused_kernel_never_wrote_the_weights_that_would_be_taken_off(tmp_path):
    def seconds_of(heads, positions="sinusoidal"):
        run = sections(
            **{"model.num_heads": heads, "data.max_length": 256, "model.dtype": "bfloat16"},
            **{"model.attention_kernel": "fused", "model.positions": positions},
        )
        made = make(tmp_path, name="v5e-1", run=run, all_programs=False)
        return made.step_parts["memory"]

    assert seconds_of(32) == pytest.approx(seconds_of(4))
    assert seconds_of(32, "relative") < seconds_of(4, "relative")  # cannot use it


def test_what_the_optimizer_moves_does_not_grow_with_the_batch(tmp_path, monkeypatch):
    short, long = BatchShape(64, 8, 8), BatchShape(64, 32, 32)
    work = Workload((short, long), (1.0, 0.0), 2, False, 100, "as the test says")
    monkeypatch.setattr(workloads, "workload", lambda sections: work)
    compiler = StandIn(state=3 * GIB)  # more of it than the step moves
    made = make(tmp_path, name="v5e-1", compiler=compiler, all_programs=False)
    moved = made.step_parts["memory"] * topology("v5e-1").chip.bandwidth
    assert moved == pytest.approx(2 * 3 * GIB + GIB, rel=0.2)
    assert compiler.asked[0].shape == long


def test_the_commonest_step_fits_too_or_both_get_more_microbatches(tmp_path):
    class ShortOnesNeedMore(StandIn):
        def __call__(self, program):
            self.activations = (20 if program.shape.target_length == 32 else 10) * GIB
            return super().__call__(program)

    made = make(tmp_path, name="v5e-1", compiler=ShortOnesNeedMore(), run=sections())
    assert made.fits and made.microbatches == 2
    assert made.memory["activations"] == 10 * GIB  # of the shape that needs most


def test_hours_are_weighted_over_the_shapes(tmp_path, monkeypatch):
    short, long = BatchShape(64, 8, 8), BatchShape(16, 32, 32)

    def of(shares):
        work = Workload((short, long), shares, 2, False, 100, "as the test says")
        monkeypatch.setattr(workloads, "workload", lambda sections: work)
        return make(tmp_path, name="v5e-1").step_seconds

    mixed = of((0.75, 0.25))
    for end in range(2):
        parts = 0.75 * of((1.0, 0.0))[end] + 0.25 * of((0.0, 1.0))[end]
        assert mixed[end] == pytest.approx(parts)


def test_hours_are_training_compiling_and_scoring(tmp_path):
    made = make(tmp_path)
    steps = sections().training.steps
    assert made.hours_parts["training"].low == pytest.approx(made.step_seconds.low * steps / 3600)
    assert set(made.hours_parts) == {"training", "compiling", "scoring"}
    assert made.hours_parts["scoring"].low > 0
    programs = 2 * sections().data.num_buckets + 6  # of train, as many of dev, and others
    assert made.hours_parts["compiling"].low == pytest.approx(programs * 20 / 3600)
    packed = make(tmp_path, run=sections(**{"data.batching": "packed", "data.packed_length": 64}))
    programs = 1 + sections().data.num_buckets + 6  # dev and test are never packed
    assert packed.hours_parts["compiling"].low == pytest.approx(programs * 20 / 3600)
    assert made.hours.high == pytest.approx(sum(part.high for part in made.hours_parts.values()))
    assert made.chip_hours.low == pytest.approx(8 * made.hours.low)


def test_dollars_are_those_of_the_middle_of_its_chip_hours(tmp_path):
    made = make(tmp_path)
    prices = Prices({"v5e": Price(2.0, None)}, datetime.date.today(), "")
    low, high = made.chip_hours
    assert made.dollars(prices) == Price(pytest.approx(2 * math.sqrt(low * high)), None)


def test_memory_is_parameters_optimizer_and_activations(tmp_path):
    made = make(tmp_path, compiler=StandIn(activations=2 * GIB, state=3 * GIB))
    parts = {"parameters": GIB, "optimizer": 2 * GIB, "activations": 2 * GIB}
    assert made.memory == parts and made.peak_bytes == 5 * GIB


def test_the_loop_over_microbatches_counts_as_often_as_it_runs(tmp_path):
    def bytes_of(microbatches):
        run = sections(**{"training.microbatches": microbatches})
        made = plan(run, topology("v5e-1"), settings(tmp_path))
        return made.step_parts["memory"] * topology("v5e-1").chip.bandwidth

    beside = 2 * (GIB // 4) + GIB // 4 // 3  # the optimizer's
    assert bytes_of(1) == pytest.approx(8e9)
    assert bytes_of(2) == pytest.approx(2 * (8e9 - beside) + beside, rel=0.01)


def test_layers_computed_again_are_a_third_more_operations(tmp_path):
    again, once = (
        make(tmp_path, run=sections(**{"model.rematerialise": each})) for each in (True, False)
    )
    assert again.step_parts["products"] == pytest.approx(4 / 3 * once.step_parts["products"])
    assert again.operations == once.operations  # those of the model


def test_rows_that_fill_up_a_batch_for_all_chips_are_computed_too(tmp_path, monkeypatch):
    shape = BatchShape(9, 32, 32)
    work = Workload((shape,), (1.0,), 1, False, 100, "as the test says")
    monkeypatch.setattr(workloads, "workload", lambda sections: work)
    made = make(tmp_path, name="v5e-8")
    assert made.operations == float(step_operations(sections().model).of(16, 32, 32))


def test_what_attention_adds_to_long_sentences_is_divided_among_the_chips(tmp_path):
    def saved(name):
        bytes_of = [
            make(
                tmp_path,
                name=name,
                run=sections(**{"model.num_heads": heads, "data.max_length": 64}),
                all_programs=False,
            ).step_parts["memory"]
            for heads in (2, 4)
        ]
        return bytes_of[0] - bytes_of[1]

    assert saved("v5e-1") == pytest.approx(8 * saved("v5e-8")) and saved("v5e-8") > 0


def test_only_what_tensor_parallelism_sends_is_sent_for_each_microbatch(tmp_path):
    def sent(**changes):
        return make(tmp_path, run=sections(**changes)).step_parts["links"]

    once = sent()
    assert sent(**{"training.microbatches": 4}) == once > 0
    cut = {"devices.tensor": 2}
    assert sent(**cut) == once and sent(**cut, **{"training.microbatches": 4}) == 4 * once


def test_scoring_is_as_many_steps_of_the_search_as_translations_may_have_tokens(tmp_path):
    def scoring(name, **changes):
        run = sections(**changes)
        rows, length = workloads.widest_decode(run)
        batches = math.ceil(workloads.workload(run).num_scored / rows)
        on = topology(name)
        step = seconds(Work(1e9, 8e9 / on.num_chips, 0.0), on, on.chip.operations)
        made = make(tmp_path, name=name, run=run).hours_parts["scoring"]
        return made.low * 3600 / (batches * step.low), length

    tokens, length = scoring("v5e-8")
    assert tokens == pytest.approx(length + sections().decoding.max_extra_tokens)
    tokens, _ = scoring("v5e-1", **{"decoding.max_tokens": 7, "decoding.beam_size": 1})
    assert tokens == pytest.approx(7)


@pytest.mark.parametrize(
    "key, value",
    [
        *(("model.scan_layers", True), ("training.loss_chunk_tokens", 512)),
        ("model.family", "recurrent"),
    ],
)
def test_of_a_loop_that_counts_once_the_plan_says_that_its_time_is_too_low(tmp_path, key, value):
    without = {"model.scan_layers": False, "training.loss_chunk_tokens": 0}
    plain, looped = (
        make(tmp_path, run=sections(**changes)) for changes in (without, without | {key: value})
    )
    assert not any("too little time" in note for note in plain.notes)
    assert any("too little time" in note and key in note for note in looped.notes)


def test_what_does_not_fit_has_advice_and_no_hours(tmp_path):
    made = make(tmp_path, compiler=StandIn(state=20 * GIB))
    assert not made.fits and "devices.fsdp" in made.advice
    assert math.isnan(made.hours.low)


def test_a_factor_takes_the_place_of_the_range(tmp_path):
    middle = make(tmp_path).step_seconds.middle
    made = make(tmp_path, factors={"v5e": 1.5})
    assert made.step_seconds.low == made.step_seconds.high == pytest.approx(1.5 * middle)
    assert not any("not calibrated" in note for note in made.notes)


def test_a_factor_is_of_one_kind_of_chip(tmp_path):
    made = make(tmp_path, factors={"v4": 1.5})
    assert made.step_seconds == make(tmp_path).step_seconds
    assert "not calibrated: the run was not on a v5e" in made.notes


def test_gpus_need_no_compiler_and_are_marked(tmp_path):
    compiler = StandIn()
    made = make(tmp_path, name="h100-8", compiler=compiler)
    assert compiler.asked == []
    assert any("roofline alone" in note for note in made.notes)
    assert 0 < made.step_seconds.low < made.step_seconds.high


def test_rows_of_gpus_fill_up_all_parts_of_a_batch(tmp_path, monkeypatch):
    shape = BatchShape(17, 8, 8)
    work = Workload((shape,), (1.0,), 1, False, 0, "as the test says")
    monkeypatch.setattr(workloads, "workload", lambda _: work)
    for changes, rows in (
        ({}, 24),
        ({"training.microbatches": 4}, 32),
        ({"devices.tensor": 8}, 17),
    ):
        run = sections(**changes)
        made = make(tmp_path, name="h100-8", run=run)
        exact = step_operations(run.model).of(*shape._replace(rows=rows))
        assert made.operations == pytest.approx(float(exact))


def test_a_gpu_holds_its_part_of_the_state_or_the_plan_says_that_it_does_not_fit(tmp_path):
    def on_eight(**devices):
        changes = {"model.d_ff": 2_500_000, "model.d_model": 512} | devices
        return make(tmp_path, name="h100-8", run=sections(**changes))

    whole, halves, eighths = on_eight(), *(on_eight(**{"devices.fsdp": n}) for n in (2, 8))
    assert not whole.fits and "devices.fsdp" in whole.advice and math.isnan(whole.hours.low)
    assert "parameters + optimizer + gathered or gradients alone take" in whole.advice
    # 12 bytes of state, divided, and 4 of gradients or gathered parameters, which are not.
    for made, parts in ((whole, 1), (halves, 2), (eighths, 8)):
        assert made.peak_bytes == pytest.approx((12 / parts + 4) * made.num_params)
    assert not halves.fits and eighths.fits


@pytest.mark.parametrize("name", typing.get_args(Optimizer))
def test_the_memory_of_a_gpu_holds_the_state_of_its_optimizer(tmp_path, name):
    run = sections(**{"training.optimizer": name, "training.weight_decay": 0.0})
    made = make(tmp_path, name="h100-1", run=run)
    # Muon has one moment of matrices and two of the rest, Adafactor sums of large matrices.
    bytes_of = {"adam": (12, 12), "adamw": (12, 12), "lion": (8, 8), "muon": (8, 12)}
    least, most = (bytes_of | {"adafactor": (4, 8)})[name]
    state = made.memory["parameters"] + made.memory["optimizer"]
    assert least <= round(state / made.num_params, 3) <= most


def test_float32_is_told_to_be_slow(tmp_path):
    slow, fast = (
        make(tmp_path, run=sections(**{"model.dtype": each})) for each in ("float32", "bfloat16")
    )
    assert slow.step_parts["products"] == pytest.approx(6 * fast.step_parts["products"])
    assert any("bfloat16" in note for note in slow.notes)
    assert not any("bfloat16" in note for note in fast.notes)
