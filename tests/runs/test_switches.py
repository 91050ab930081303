"""What is reported about a run's switches, and what its record keeps."""

from types import SimpleNamespace

import jax
import pytest

from t2t_jax.data.batches.batches import BucketedBatches
from t2t_jax.devices import Devices, make_devices
from t2t_jax.json_files import read_json
from t2t_jax.runs import steps
from t2t_jax.runs.sections import check_fit
from t2t_jax.runs.switches import switches
from t2t_jax.runs.train import train
from t2t_jax.training.metrics_file import read_metrics
from t2t_jax.training.step import TrainState
from t2t_jax.training.trace import Steps
from tests.data.splits import split_of
from tests.model.configs import small
from tests.runs.configs import smallest

FUSED = dict(attention_kernel="fused", dtype="bfloat16", d_k=8, d_v=8)


def test_without_a_switch_nothing_is_said():
    assert switches(small(dropout_rate=0.1)) == ([], {"attention_kernel": "einsum"})


@pytest.mark.parametrize(
    "backend, kernel, told",
    [
        ("cpu", "xla", "XLA's own, as there is neither a GPU nor a TPU"),
        ("gpu", "cudnn", "cuDNN's"),
        ("tpu", "pallas", "a Pallas kernel, where a row fits on the chip"),
    ],
)
def test_which_attention_computes_is_said_and_kept(backend, kernel, told, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "local_devices", lambda: [SimpleNamespace(compute_capability="9.0")])
    [line], facts = switches(small(**FUSED))
    assert f"in training it is {told}" in line and facts == {"attention_kernel": kernel}


def test_what_cannot_be_fused_is_said():
    lines, facts = switches(small(**FUSED | {"dtype": "float32"}))
    assert lines == [
        "model.attention_kernel='fused' cannot be used: model.dtype='float32' is not 'bfloat16'; "
        "einsum is used"
    ]
    assert facts == {"attention_kernel": "einsum"}


def test_rates_that_are_rounded_are_said_and_kept():
    config = small(dropout_rate=0.1, feed_forward_dropout_rate=0.5, dropout_bits=8)
    lines, facts = switches(config)
    assert lines == [
        "model.dropout_rate=0.1 is 0.101562 with model.dropout_bits=8: the nearest multiple of "
        "1/256"
    ]
    assert facts["true_dropout_rate"] == 26 / 256 and "true_feed_forward_dropout_rate" not in facts


def test_a_fused_kernel_is_cut_by_no_tensor_axis(tmp_path):
    fused = {"model.attention_kernel": "fused", "model.dtype": "bfloat16"}
    check_fit(smallest(tmp_path, **fused))
    cut = {"devices.tensor": 2}
    with pytest.raises(ValueError, match="attention_kernel='fused' does not go with devices.ten"):
        smallest(tmp_path, **fused | cut)
    # What no kernel takes is done by einsum on every device.
    for key, value in (("model.dtype", "float32"), ("model.positions", "relative")):
        smallest(tmp_path, **fused | cut | {key: value})


def losses(workdir):
    entries = read_metrics(workdir / "metrics.jsonl")
    return [entry["loss"] for entry in entries if entry["split"] in ("train", "dev")]


@pytest.fixture
def as_if_accelerators(monkeypatch):
    """Has the CPU's devices taken for accelerators, from when it is called."""

    def begin():
        monkeypatch.setattr(Devices, "are_accelerators", property(lambda _: True))

    yield begin
    jax.config.update("jax_default_matmul_precision", None)  # which `make_devices` sets of these


@pytest.mark.slow
def test_a_run_compiled_ahead_is_the_same_also_when_it_goes_on(
    tmp_path, monkeypatch, as_if_accelerators, capsys
):
    changes = {"training.schedule": "peak", "training.steps": 4, "data.length_multiple": 4}
    more = changes | {"training.steps": 8}
    train(smallest(tmp_path / "cache", **more), tmp_path / "as_they_come")
    ahead, batches = steps.compile_ahead, []

    def recorded(devices, step, state, shapes, advice):
        batches.append([batch.target_ids.shape for batch in shapes])
        return ahead(devices, step, state, shapes, advice)

    monkeypatch.setattr(steps, "compile_ahead", recorded)
    as_if_accelerators()
    profiled = Steps(2, 3)
    train(smallest(tmp_path / "cache", **changes), tmp_path / "w", profile_steps=profiled)
    train(smallest(tmp_path / "cache", **more), tmp_path / "w", profile_steps=profiled)
    assert "no trace: --profile_steps begins at step 2, and the steps to do are 5 to 8" in (
        capsys.readouterr().err
    )
    assert losses(tmp_path / "w") == losses(tmp_path / "as_they_come")
    assert len(batches) == 2 and len(batches[0]) == 2
    assert all(length % 4 == 0 for _, length in batches[0])
    assert read_json(tmp_path / "w" / "training.json")["attention_kernel"] == "einsum"
    assert list((tmp_path / "w" / "profile").rglob("*.xplane.pb"))


def test_several_hosts_compile_each_shape_when_it_comes(monkeypatch, as_if_accelerators):
    as_if_accelerators()
    monkeypatch.setattr(steps, "compile_ahead", None)
    monkeypatch.setattr(steps.hosts, "are_several", lambda: True)
    monkeypatch.setattr(steps, "compile_train_step", lambda devices, step, state: step)
    budgets = dict(source_tokens_per_batch=99, target_tokens_per_batch=99)
    split = split_of([(2, 2), (9, 9)] * 100)
    batches = BucketedBatches(split, num_buckets=2, row_multiple=2, seed=0, **budgets)
    assert len(batches.shapes) == 2

    def step(state, batch):
        return state, batch

    state = TrainState(*TrainState._fields)  # nothing looks at it
    assert steps.compiled_step(make_devices(), step, state, batches) is step
