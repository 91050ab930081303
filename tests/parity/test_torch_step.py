"""PyTorch's model in the step benchmark is our Transformer: it has the same loss."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments.benchmarks import plain_step  # noqa: E402
from experiments.benchmarks.peers.torch_step import Transformer as Peer  # noqa: E402
from experiments.benchmarks.sizes import Size  # noqa: E402
from t2t_jax.data.batches.batches import Batch  # noqa: E402
from t2t_jax.model.positions import sinusoids  # noqa: E402
from t2t_jax.model.transformer import Transformer  # noqa: E402
from t2t_jax.training.loss import make_loss_fn  # noqa: E402
from tests.model.configs import random_variables, small  # noqa: E402
from tests.parity.test_torch_transformer import SIZES, put, set_norm  # noqa: E402

pytestmark = pytest.mark.parity


def _with_our_weights(peer, params):
    put(peer.table, params["embedding"]["table"])
    for side in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(peer, side)):
            ours = params[side][f"layers_{number}"]
            names = ("self_attentions_0", "cross_attention")
            for name, attention, norm in zip(names, layer.attentions, layer.norms, strict=False):
                _set_attention(attention, ours[name])
                residual = name.replace("attentions", "attention_residuals")
                residual = residual if residual != name else f"{name}_residual"
                set_norm(norm, ours[residual]["norm"])
            set_norm(layer.norms[-1], ours["feed_forward_residual"]["norm"])
            for linear, name in ((layer.inner, "inner"), (layer.outer, "outer")):
                put(linear.weight, ours["feed_forward"][name]["kernel"].T)
                put(linear.bias, ours["feed_forward"][name]["bias"])
    return peer.eval()


def _set_attention(attention, ours):
    parts = [ours[name] for name in ("query", "key", "value")]
    d_model = attention.output.in_features
    kernels = [part["kernel"].reshape(d_model, -1).T for part in parts]
    put(attention.inputs.weight, np.concatenate(kernels))
    put(attention.inputs.bias, np.concatenate([part["bias"].reshape(-1) for part in parts]))
    put(attention.output.weight, ours["output"]["kernel"].reshape(-1, d_model).T)
    put(attention.output.bias, ours["output"]["bias"])


def test_the_loss_is_ours():
    config = small(num_encoder_layers=2, num_decoder_layers=2, dropout_rate=0.0, **SIZES)
    model = Transformer(config)
    params = jax.tree.map(np.asarray, random_variables(model)["params"])
    sources = np.array([[3, 9, 4, 7, 2], [5, 2, 0, 0, 0], [8, 6, 2, 0, 0]], np.int32)
    targets = np.array([[5, 3, 2, 0], [10, 3, 4, 2], [2, 0, 0, 0]], np.int32)
    batch = Batch(jnp.asarray(sources), jnp.asarray(targets))
    loss_fn = make_loss_fn(model, 0.1, 0, "all")
    loss, metrics = loss_fn(jax.tree.map(jnp.asarray, params), batch, None)

    sizes = dataclasses.asdict(config) | {"label_smoothing": 0.1}
    sizes["positions"] = sinusoids(jnp.arange(5), config.d_model).tolist()
    peer = _with_our_weights(Peer(sizes), params)
    with torch.no_grad():
        found = peer(torch.tensor(sources).long(), torch.tensor(targets).long())
    assert float(found) == pytest.approx(float(loss / metrics.tokens), rel=1e-5)


@pytest.mark.slow
def test_it_takes_turns_with_our_step():
    changes = {"model.d_model": 16, "model.d_ff": 16, "model.d_k": 4, "model.vocabulary_rows": 64}
    size = Size("configs/tiny.py", changes, (2, 4), 1)
    found = {each.what: each.values for each in plain_step.measure(size, 2, with_torch=True)}
    for name in ("torch", "ours over torch", "torch over the roof"):
        assert len(found[name]) == 2 and min(found[name]) > 0
