"""The plain step is a fair comparison: the same function of the same weights."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import tiny
from experiments.benchmarks.plain_step import measure, our_step, plain_step
from experiments.benchmarks.sizes import Size
from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.config import TransformerConfig
from t2t_jax.training.config import TrainingConfig


@pytest.mark.slow
def test_first_loss_and_update_are_those_of_our_step():
    sections = tiny.get_config()
    config = TransformerConfig(
        **{**sections.model, "vocabulary_rows": 23, "d_model": 8, "d_ff": 12, "num_heads": 2}
        | {"d_k": 4, "d_v": 4, "num_encoder_layers": 2, "num_decoder_layers": 2}
        | {"dropout_rate": 0.0}
    )
    training = dataclasses.replace(
        TrainingConfig(**sections.training), label_smoothing=0.0, loss_chunk_tokens=0
    )
    ids = np.random.default_rng(0).integers(4, 23, (2, 3, 5)).astype(np.int32)
    ids[0, 1, 3:] = ids[1, 1, 2:] = 0  # padding
    batch = Batch(*jnp.asarray(ids))

    @jax.jit
    def first_step():
        plain_state, plain = plain_step(config, training)
        ours_state, ours = our_step(config, training)
        params = jax.tree.map(jnp.asarray, ours_state.params)
        params["embedding"]["table"] = plain_state[0]["table"]
        for side in ("encoder", "decoder"):
            for number, (attentions, inner, outer) in enumerate(plain_state[0][side]):
                layer = params[side][f"layers_{number}"]
                layer["feed_forward"]["inner"]["kernel"] = inner
                layer["feed_forward"]["outer"]["kernel"] = outer
                for name, weights in zip(
                    ("self_attentions_0", "cross_attention"), attentions, strict=False
                ):
                    for part, matrix in zip(
                        ("query", "key", "value", "output"), weights, strict=True
                    ):
                        kernel = layer[name][part]["kernel"]
                        layer[name][part]["kernel"] = matrix.reshape(kernel.shape)
        return plain(plain_state, batch), ours(ours_state._replace(params=params), batch)

    (plain_state, loss), (ours_state, metrics) = first_step()
    assert float(metrics.loss / metrics.tokens) == pytest.approx(float(loss), rel=1e-5)
    np.testing.assert_allclose(
        ours_state.params["embedding"]["table"], plain_state[0]["table"], atol=1e-4
    )


@pytest.mark.slow
def test_both_are_rated_beside_the_products_alone():
    changes = {"model.d_model": 16, "model.d_ff": 16, "model.d_k": 4, "model.vocabulary_rows": 64}
    measured = measure(Size("configs/tiny.py", changes, (2, 4), 1), rounds=3, with_torch=False)
    found = {each.what: np.array(each.values) for each in measured}
    assert {each.unit for each in measured} == {"tokens/s", "ratio"}
    assert all(len(values) == 3 and min(values) > 0 for values in found.values())
    for name in ("ours", "ours, rounded", "plain"):
        shares = found[name] / found["products alone"]
        np.testing.assert_allclose(found[f"{name} over the roof"], shares)
    for name in ("ours", "ours, rounded"):
        np.testing.assert_allclose(found[f"{name} over plain"], found[name] / found["plain"])
    assert len(found) == 9
