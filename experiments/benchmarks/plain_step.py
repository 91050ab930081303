"""Our training step compared with one written by hand, and with the matrix products alone.

    python -m experiments.benchmarks --parts=step --sizes=small --against=torch

All train the same model (dropout as in its config, float32) on the same full batches and take
turns, of which a first step is not timed: in a training, steps follow each other. The plain step
is a paper's formulas in JAX without a library: no biases, no learned norms, the logits of the whole
batch at once. "Rounded" are, on a CPU, the products of our step with
devices.matmul_precision=default; the roof is of float32 products for all.

PyTorch trains the same hand-written model in a separate process, and in another one whose products
use AVX-512 even on processors not by Intel, if they have it. Both under autocast to bfloat16 are
"rounded" too.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.benchmarks import roof
from experiments.benchmarks.results import Measured, in_turns, over
from experiments.benchmarks.sizes import Size
from t2t_jax.model.config import TransformerConfig
from t2t_jax.training.config import TrainingConfig


def measure(size: Size, rounds: int, with_torch: bool) -> list[Measured]:
    """Tokens/s of each; those of the products are the roof.

    Raises:
      ValueError: PyTorch, which runs on the CPU here, is asked for beside an accelerator.
    """
    import jax

    from t2t_jax.data.batches.batches import Batch
    from t2t_jax.devices import ROUNDS_ON_CPU, make_devices

    sections = size.read_config()
    on_accelerators = make_devices(**sections.devices).are_accelerators
    if on_accelerators and with_torch:
        raise ValueError("--against=torch is for a CPU, the only place where its model runs here")
    config, training = TransformerConfig(**sections.model), TrainingConfig(**sections.training)
    ids = np.random.default_rng(0).integers(4, config.vocabulary_rows, (2, *size.shape))
    batch = jax.device_put(Batch(*ids.astype(np.int32)))

    def stepper(state, step, precision: str | None) -> Callable[[], float]:
        step = jax.jit(step, donate_argnums=0)
        box = [state]

        def run():
            with jax.default_matmul_precision(precision):
                box[0], result = step(box[0], batch)
            return result

        return lambda: roof.seconds_after_one(run, size.steps_a_round)

    as_set = jax.config.jax_default_matmul_precision  # pyright: ignore  # by `make_devices`
    steppers = {
        "ours": stepper(*our_step(config, training), as_set),
        "plain": stepper(*plain_step(config, training), as_set),
        roof.PRODUCTS: roof.of_a_step(config, size),
    }
    if not on_accelerators:
        steppers[_rounded("ours")] = stepper(*our_step(config, training), ROUNDS_ON_CPU)
    with contextlib.ExitStack() as stack:
        if with_torch:
            steppers |= _torch_steppers(config, training, size, stack)
        seconds = {name: all[1:] for name, all in in_turns(steppers, rounds + 1).items()}
    ours = [name for name in seconds if name in ("ours", _rounded("ours"))]
    others = [name for name in seconds if name not in (*ours, roof.PRODUCTS)]
    return [
        *(
            Measured(name, "tokens/s", [size.tokens / each for each in taken])
            for name, taken in seconds.items()
        ),
        *(
            over(f"{mine} over {name}", seconds[name], seconds[mine])
            for mine in ours
            for name in others
        ),
        *(
            over(f"{name} over the roof", seconds[roof.PRODUCTS], seconds[name])
            for name in (*ours, *others)
        ),
    ]


def _rounded(name: str) -> str:
    return f"{name}, rounded"


def plain_step(config: TransformerConfig, training: TrainingConfig):
    """(state, step) of a Transformer written out by hand.

    state = (params, opt_state, number); step(state, batch) gives the next one and the loss.
    """
    import jax  # here, like other heavy libraries: --help is fast
    import jax.numpy as jnp
    import optax

    from t2t_jax.model.positions import sinusoids
    from t2t_jax.training.optimizer import make_optimizer

    d, heads, d_k, d_ff = config.d_model, config.num_heads, config.d_k, config.d_ff
    optimizer = make_optimizer(training, d)

    def weights(key, *shape):
        return jax.random.normal(key, shape) * shape[0] ** -0.5

    def layer(key, num_attentions):
        keys = jax.random.split(key, 4 * num_attentions + 2)
        attentions = [
            [weights(k, d, heads * d_k) for k in keys[4 * i : 4 * i + 4]]
            for i in range(num_attentions)
        ]
        return attentions, weights(keys[-2], d, d_ff), weights(keys[-1], d_ff, d)

    def norm(x):
        return jax.nn.standardize(x, epsilon=config.norm_epsilon)

    def dropout(x, key):
        if config.dropout_rate == 0:
            return x
        kept = 1 - config.dropout_rate
        return jnp.where(jax.random.bernoulli(key, kept, x.shape), x / kept, 0)

    def attend(w, x, memory, mask):
        q, k, v = (
            y.reshape(*y.shape[:2], heads, d_k) for y in (x @ w[0], memory @ w[1], memory @ w[2])
        )
        scores = jnp.einsum("bthk,bshk->bhts", q, k) / d_k**0.5
        attention = jax.nn.softmax(jnp.where(mask, scores, -1e9))
        return jnp.einsum("bhts,bshk->bthk", attention, v).reshape(x.shape) @ w[3]

    def run(layers, x, memory, masks, keys):
        for attentions, inner, outer in layers:
            for w, mask, source in zip(attentions, masks, (None, memory), strict=False):
                update = attend(w, x, x if source is None else source, mask)
                x = norm(x + dropout(update, next(keys)))
            x = norm(x + dropout(jax.nn.relu(x @ inner) @ outer, next(keys)))
        return x

    def loss_fn(params, batch, key):
        keys = iter(jax.random.split(key, 32))
        source, target = batch.source_ids, batch.target_ids
        inputs = jnp.pad(target, ((0, 0), (1, 0)), constant_values=1)[:, :-1]
        table = params["table"]

        def embed(ids):
            x = table[ids] * d**0.5 + sinusoids(jnp.arange(ids.shape[1]), d)[None]
            return dropout(x, next(keys))

        is_source = (source != 0)[:, None, None]
        causal = jnp.tril(jnp.ones((target.shape[1],) * 2, bool))[None, None]
        memory = run(params["encoder"], embed(source), None, [is_source], keys)
        x = run(params["decoder"], embed(inputs), memory, [causal, is_source], keys)
        logits = x @ table.T
        smooth = optax.smooth_labels(
            jax.nn.one_hot(target, table.shape[0]), training.label_smoothing
        )
        is_target = target != 0
        return (optax.softmax_cross_entropy(logits, smooth) * is_target).sum() / is_target.sum()

    def step(state, batch):
        params, opt_state, number = state
        key = jax.random.fold_in(jax.random.key(0), number)
        loss, grads = jax.value_and_grad(loss_fn)(params, batch, key)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state, number + 1), loss

    keys = jax.random.split(jax.random.key(0), 1 + 2 * config.num_encoder_layers)
    params = {
        "table": jax.random.normal(keys[0], (config.vocabulary_rows, d)) * d**-0.5,
        "encoder": [layer(k, 1) for k in keys[1::2]],
        "decoder": [layer(k, 2) for k in keys[2::2]],
    }
    return (params, optimizer.init(params), jnp.asarray(0)), step


def our_step(config: TransformerConfig, training: TrainingConfig):
    """(state, step) of this library."""
    from t2t_jax.model.transformer import Transformer
    from t2t_jax.training.loss import make_loss_fn
    from t2t_jax.training.optimizer import make_optimizer
    from t2t_jax.training.step import make_train_state, make_train_step

    model, optimizer = Transformer(config), make_optimizer(training, config.d_model)
    loss_fn = make_loss_fn(model, training.label_smoothing, training.loss_chunk_tokens)
    step = make_train_step(loss_fn, optimizer)
    return make_train_state(model, optimizer, 0), step


def _torch_steppers(
    config: TransformerConfig, training: TrainingConfig, size: Size, stack: contextlib.ExitStack
) -> dict[str, Callable[[], float]]:
    """Name -> function that runs a round of steps in PyTorch and returns seconds per step.

    The processes end with `stack`.
    """
    import jax.numpy as jnp

    from t2t_jax.cores import own_cores
    from t2t_jax.model.positions import sinusoids

    sizes = {**dataclasses.asdict(config), "label_smoothing": training.label_smoothing}
    sizes |= dict(num_threads=len(own_cores()), steps=size.steps_a_round, shape=size.shape)
    sizes["positions"] = sinusoids(jnp.arange(size.shape[1]), config.d_model).tolist()
    command = [sys.executable, "-m", "experiments.benchmarks.peers.torch_step"]

    def stepper(environment: dict[str, str], rounds: bool) -> Callable[[], float]:
        process = stack.enter_context(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | environment,
            )
        )
        questions, answers = process.stdin, process.stdout
        assert questions is not None and answers is not None
        print(json.dumps({**sizes, "rounds": rounds}), file=questions, flush=True)

        def seconds() -> float:
            print(file=questions, flush=True)
            answer = answers.readline()
            if not answer:
                sys.exit("benchmarks: PyTorch has ended; its last words stand above")
            return float(answer)

        return seconds

    environments = {"torch": {}}
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    if (library := _library_for_avx512(directory)) is not None:
        environments["torch, AVX-512"] = {"LD_PRELOAD": str(library)}
    return {
        _rounded(name) if rounds else name: stepper(environment, rounds)
        for rounds in (False, True)
        for name, environment in environments.items()
    }


def _library_for_avx512(directory: Path) -> Path | None:
    """A library that makes MKL take any processor for Intel's; None without one that can link.

    MKL still uses AVX-512 only if the processor has it.
    """
    if (compiler := shutil.which("cc")) is None:
        return None
    source, library = directory / "intel.c", directory / "intel.so"
    source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    done = subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source])
    return None if done.returncode else library
