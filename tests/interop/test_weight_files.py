"""Every tensor is read as numbers, and every wrong one is named."""

import json
import pickle

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from t2t_jax.interop.weight_files import Weights  # noqa: E402

pytestmark = pytest.mark.parity


def tensor(*shape, dtype=torch.float32):
    values = torch.arange(int(np.prod(shape)), dtype=torch.float32)
    return values.reshape(shape).to(dtype).clone()


def test_shards_are_read_as_one_model(tmp_path):
    save_file({"model.a": tensor(2, 3)}, tmp_path / "one.safetensors")
    save_file({"b": tensor(4)}, tmp_path / "two.safetensors")
    index = {"weight_map": {"model.a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    weights = Weights(tmp_path, "model.")
    np.testing.assert_array_equal(weights.take("a", (2, 3)), tensor(2, 3))
    np.testing.assert_array_equal(weights.take("b", (4,)), tensor(4))
    weights.check_all_used()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats_become_float32(tmp_path, dtype):
    save_file({"a": tensor(3, dtype=dtype)}, tmp_path / "model.safetensors")
    found = Weights(tmp_path, "").take("a", (3,))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [0, 1, 2])


def test_the_old_words_for_a_layer_norm_are_known(tmp_path):
    old = {"bert.LayerNorm.gamma": tensor(3), "bert.LayerNorm.beta": tensor(3)}
    save_file(old, tmp_path / "model.safetensors")
    weights = Weights(tmp_path, "bert.")
    assert "LayerNorm.weight" in weights and "LayerNorm.bias" in weights


@pytest.fixture
def weights(tmp_path):
    tensors = {"a": tensor(2, 3), "ids": torch.arange(3), "extra.bias": tensor(5)}
    save_file(tensors, tmp_path / "model.safetensors")
    return Weights(tmp_path, "")


def test_a_missing_tensor_is_told(weights):
    with pytest.raises(ValueError, match="the tensor gone is missing"):
        weights.take("gone", (2,))


def test_a_misshapen_tensor_is_told(weights):
    with pytest.raises(ValueError, match=r"a has the shape \[2, 3\].* wants \[3, 2\]"):
        weights.take("a", (3, 2))


def test_whole_numbers_are_no_parameters(weights):
    with pytest.raises(ValueError, match="ids is I64, none of F64, F32, F16, BF16"):
        weights.take("ids", (3,))


def test_a_tensor_that_nothing_uses_is_told(weights):
    weights.take("a", (2, 3))
    with pytest.raises(ValueError, match=r"extra.bias of shape \[5\] \(and 1 more\) has no place"):
        weights.check_all_used()
    weights.ignore(r"extra\..*")
    weights.ignore("ids")
    weights.check_all_used()


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("it was unpickled",))


def test_a_pickle_is_never_opened(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(
        ValueError, match="pytorch_model.bin, a pickle file.* convert it to model.safetens"
    ):
        Weights(tmp_path, "")


@pytest.mark.parametrize(
    ("weight_map", "told"),
    [
        ({"a": "../secret.safetensors"}, "not the name of a file"),
        ({"a": ["x"]}, "not the name of a file"),
        ({"a": 1, "b": "x"}, "1 is not the name of a file"),
        ({"a": "gone.safetensors"}, "gone.safetensors, which is missing"),
        ({}, "has no weight_map"),
        (None, "has no weight_map"),
    ],
)
def test_a_wrong_index_is_told(tmp_path, weight_map, told):
    index = {"weight_map": weight_map}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=told):
        Weights(tmp_path, "")


def test_a_damaged_file_is_told(tmp_path):
    save_file({"a": tensor(30)}, tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:-8])
    with pytest.raises(ValueError, match="model.safetensors cannot be read"):
        Weights(tmp_path, "")


def test_an_empty_directory_is_told(tmp_path):
    with pytest.raises(ValueError, match="holds no model.safetensors"):
        Weights(tmp_path, "")
