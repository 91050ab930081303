"""What is said of the switches of a run, and what its record keeps."""

import pytest

from t2t_jax.model import attention
from t2t_jax.runs import switches as of_runs
from t2t_jax.runs.sections import check_fit
from t2t_jax.runs.switches import switches
from tests.model.configs import small
from tests.runs.configs import smallest

FUSED = dict(attention_kernel="fused", dtype="bfloat16", d_k=8, d_v=8)


def test_without_a_switch_nothing_is_said():
    assert switches(small(dropout_rate=0.1)) == ([], {"attention_kernel": "einsum"})


def test_which_attention_computes_is_said_and_kept(monkeypatch):
    lines, facts = switches(small(**FUSED))
    assert lines == [
        "model.attention_kernel='fused': in training it is XLA's own, as there is no GPU"
    ]
    assert facts == {"attention_kernel": "xla"}
    monkeypatch.setattr(attention.jax, "default_backend", lambda: "gpu")
    lines, facts = of_runs.switches(small(**FUSED))
    assert "it is cuDNN's" in lines[0] and facts == {"attention_kernel": "cudnn"}
    lines, facts = switches(small(**FUSED | {"dtype": "float32"}))
    assert lines == [
        "model.attention_kernel='fused' cannot be: model.dtype='float32' is not 'bfloat16'; "
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
    sections = smallest(tmp_path, **{"model.attention_kernel": "fused"})
    check_fit(sections)
    with pytest.raises(ValueError, match="attention_kernel='fused' does not go with devices.ten"):
        smallest(tmp_path, **{"model.attention_kernel": "fused", "devices.tensor": 2})
