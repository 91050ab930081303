"""A small model that can be trained repeatedly."""

import jax
import jax.numpy as jnp
import numpy as np

from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.loop import train
from t2t_jax.training.loss import make_loss_fn, sum_of
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.step import make_eval_step, make_train_state, make_train_step
from tests.model.configs import small
from tests.training.configs import short

IDENTITY = {"vocabulary_fingerprint": "0123"}


def batch(i):
    """Batch i, a function of its number."""
    return Batch(*np.random.default_rng(i).integers(4, 11, (2, 4, 5)).astype(np.int32))


class Run:
    """A small model, compiled once, that can be trained again; SHORT with `changes`."""

    def __init__(self, **changes):
        # Of few arrays: each of them, and both of its moments, is a file's worth of checkpoint.
        model = LanguageModel(
            small(
                family="decoder_only",
                num_decoder_layers=1,
                attention_biases=False,
                feed_forward_biases=False,
                dropout_rate=0.1,
            )
        )
        optimizer = make_optimizer(short(**changes), 12)
        loss_fn = make_loss_fn(model, 0.1)
        self.initial = jax.device_get(jax.jit(lambda: make_train_state(model, optimizer, 3))())
        self.loss_fn, self.optimizer = loss_fn, optimizer
        self.train_step = self.compiled(loss_fn)
        self.eval_step = jax.jit(make_eval_step(loss_fn))

    def compiled(self, loss_fn, **options):
        return jax.jit(make_train_step(loss_fn, self.optimizer, **options))

    def train(self, workdir, *, feed=None, evaluate=None, dump=None, options=None, **changes):
        config = short(**changes)
        with Checkpoints(
            workdir / "checkpoints", identity=IDENTITY, keep=config.keep_checkpoints + 1
        ) as checkpoints:
            state = checkpoints.restore_last(self.initial) or self.initial
            summary = train(
                jax.tree.map(jnp.asarray, state),
                config,
                train_step=self.train_step,
                feed=feed or (lambda start, stop: map(batch, range(start, stop))),
                evaluate=evaluate or (lambda params: sum_of([self.eval_step(params, batch(99))])),
                learning_rate=lambda step: 0.001 * step,
                checkpoints=checkpoints,
                workdir=workdir,
                restore=lambda: jax.tree.map(
                    jnp.asarray, checkpoints.restore_last(self.initial) or self.initial
                ),
                dump=dump or (lambda state, batch: "it is not kept"),
                **(options or {}),
            )
            return summary, checkpoints.restore_last(self.initial)
