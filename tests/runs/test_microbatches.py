"""How a batch is split, as the user is told, and by the available memory."""

import re
import sys

import pytest

from t2t_jax.devices import Devices
from t2t_jax.runs import steps
from t2t_jax.runs.train import train
from t2t_jax.training.loss import make_loss_fn
from t2t_jax.training.metrics_file import read_metrics
from tests.runs.configs import smallest

_LIMIT = 10**6  # bytes of a device's memory, of which the state takes a part


@pytest.fixture
def trained_with(cache, tmp_path, capsys):
    """Trains one step, and gives the line that tells how the batch is cut."""

    def trained(**changes):
        fixed = {"training.steps": 1, "training.schedule": "peak", "data.num_buckets": 1}
        train(smallest(cache, **fixed | changes), tmp_path)
        [line] = re.findall("an update is at most .*", capsys.readouterr().err)
        return line

    return trained


def test_the_cut_of_a_batch_is_told(trained_with):
    line = trained_with(**{"devices.data": 2, "training.microbatches": 3})
    tokens = r"an update is at most [\d,]+ \+ [\d,]+ tokens, padding included: "
    cut = r"devices 2 x microbatches 3 x rows \d+; up to \d rows of a full batch are empty, .*"
    assert re.fullmatch(tokens + cut, line)


def test_what_an_epoch_is_made_of_is_told(cache, tmp_path, capsys):
    train(smallest(cache, **{"training.steps": 1, "training.schedule": "peak"}), tmp_path)
    [line] = re.findall("an epoch is .*", capsys.readouterr().err)
    words = (
        r"\d+ batch(es)?; \d+\.\d% of their places are tokens, the rest padding; shapes, rows x "
    )
    assert re.match(f"an epoch is {words}", line)


def test_as_few_microbatches_are_made_as_fit_in_memory(trained_with, monkeypatch):
    needed = iter((_LIMIT + 3, _LIMIT + 2, _LIMIT))
    monkeypatch.setattr(steps, "memory_needed", lambda *_: next(needed))
    monkeypatch.setattr(Devices, "memory_limit", lambda self: _LIMIT)
    assert "x microbatches 4 x" in trained_with(**{"training.microbatches": 0})


def test_the_longest_batch_counts_though_another_has_more_tokens(trained_with, monkeypatch):
    asked = []

    def memory_needed(devices, step, state, batch):
        asked.append(batch.target_ids.shape)
        # At first as much as the device has, but for the longest sentences.
        return _LIMIT + (batch.target_ids.shape[1] == longest and len(asked) <= 2)

    monkeypatch.setattr(steps, "memory_needed", memory_needed)
    monkeypatch.setattr(Devices, "memory_limit", lambda self: _LIMIT)
    longest = 0
    trained_with(**{"training.microbatches": 0, "data.num_buckets": 4})
    longest = max(length for _, length in asked)
    asked.clear()
    line = trained_with(**{"training.microbatches": 0, "data.num_buckets": 4})
    assert "x microbatches 2 x" in line
    most, long = asked[:2]
    assert most[1] < long[1] == longest


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (1_000, "take 0.0 GiB, and a device has 0.0: make the model smaller, or cut it over more"),
        (None, "GiB, and this machine has "),
    ],
)
def test_a_state_that_does_not_fit_is_refused_before_it_is_made(
    limit, said, trained_with, monkeypatch
):
    monkeypatch.setattr(Devices, "memory_limit", lambda self: limit)
    width = {} if limit else {"model.d_model": 8_000_000}
    with pytest.raises(ValueError, match="parameters and the optimizer's state take ") as error:
        trained_with(**{"training.microbatches": 1} | width)
    assert said in str(error.value)


def test_a_model_that_does_not_fit_row_by_row_is_told(trained_with, monkeypatch):
    monkeypatch.setattr(Devices, "memory_limit", lambda self: 1_000)
    with pytest.raises(ValueError) as error:
        trained_with(
            **{
                "training.microbatches": 0,
                "data.source_tokens_per_batch": 128,
                "data.target_tokens_per_batch": 128,
            }
        )
    assert re.fullmatch(
        r"training\.microbatches=0: row by row a step still needs 0\.00 GiB, and a device has 0\.00"
        r" GiB: make the model smaller, or lower data\.max_length",
        str(error.value),
    )
    monkeypatch.setattr(steps, "memory_needed", lambda *_: sys.maxsize)
    with pytest.raises(ValueError, match="a step still needs more, and a device has 0.00 GiB"):
        trained_with(**{"training.microbatches": 0})


def test_what_is_measured_is_in_float32_whatever_training_stores(cache, tmp_path, monkeypatch):
    dtypes = []

    def remembered(model, smoothing, tokens_per_chunk, mass, logits_dtype, *others):
        dtypes.append(logits_dtype)
        return make_loss_fn(model, smoothing, tokens_per_chunk, mass, logits_dtype, *others)

    monkeypatch.setattr(steps, "make_loss_fn", remembered)
    changes = {"training.logits_dtype": "bfloat16", "training.schedule": "peak"}
    train(smallest(cache, **changes), tmp_path / "w")
    assert sorted(dtypes) == ["bfloat16", "float32"]


def test_where_training_is_cut_dev_is_measured_with_logits_in_chunks(cache, tmp_path, monkeypatch):
    """A batch that is too much for a step at once would be too much for its logits."""
    chunks = []

    def remembered(model, smoothing, tokens_per_chunk, *others):
        chunks.append(tokens_per_chunk)
        return make_loss_fn(model, smoothing, tokens_per_chunk, *others)

    monkeypatch.setattr(steps, "make_loss_fn", remembered)
    fixed = {"training.steps": 1, "training.schedule": "peak", "training.loss_chunk_tokens": 0}
    dev = []
    for number in (1, 2):
        workdir = tmp_path / str(number)
        train(smallest(cache, **fixed, **{"training.microbatches": number}), workdir)
        dev += [e for e in read_metrics(workdir / "metrics.jsonl") if e["split"] == "dev"]
    assert chunks == [0, 0, 0, steps._CHUNK_OF_EVALUATION]
    assert dev[0]["perplexity"] == pytest.approx(dev[1]["perplexity"], rel=1e-5)
