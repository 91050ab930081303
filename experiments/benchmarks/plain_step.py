"""Our training step against one written out by hand, and against the matrix products alone.

    python -m experiments.benchmarks.plain_step --config=configs/multi30k.py
    python -m experiments.benchmarks.plain_step --config=configs/multi30k.py --against=torch

Both train the same sizes (3 + 3 layers, d_model 256, d_ff 1024, 4 heads, 8,000 rows, dropout 0.1,
float32) on the same full batches, take turns, and are rated by the median of their rounds. The
plain step is what a paper's formulas become in JAX without a library: no biases, no learned norms,
the logits of the whole batch at once.

PyTorch does the same model by hand in a process of its own, and once more in one that has its
products use AVX-512 on processors that are not Intel's as well, where they have it.
"""

import dataclasses
import functools
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from absl import app, flags
from ml_collections import config_flags

from experiments.launchers.process import FASTER_ALLOCATION
from t2t_jax.cli.command import parse_flags
from t2t_jax.model.config import TransformerConfig
from t2t_jax.training.config import TrainingConfig

_SMALL = {
    "vocabulary_rows": 8000,
    "num_encoder_layers": 3,
    "num_decoder_layers": 3,
    "d_model": 256,
    "d_ff": 1024,
    "num_heads": 4,
    "d_k": 64,
    "d_v": 64,
    "dropout_rate": 0.1,
}
_ROWS, _LENGTH = 256, 16  # 4,096 source and 4,096 target tokens
_ROUNDS, _STEPS_A_ROUND = 7, 4


def plain_step(config: TransformerConfig, training: TrainingConfig):
    """(state, step) of a Transformer written out by hand.

    state = (params, opt_state, number); step(state, batch) gives the next one and the loss.
    """
    import jax  # here with the rest that is heavy: --help does not wait
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


def products_alone(config: TransformerConfig) -> float:
    """Seconds of the matrix products of one step, each timed by itself at its own shape."""
    import jax
    import jax.numpy as jnp

    tokens, d = _ROWS * _LENGTH, config.d_model
    widths = [(d, d)] * 4 * (config.num_encoder_layers + 2 * config.num_decoder_layers)
    widths += [(d, config.d_ff), (config.d_ff, d)] * (
        config.num_encoder_layers + config.num_decoder_layers
    )
    widths.append((d, config.vocabulary_rows))
    seconds = {}
    for inner, outer in set(widths):
        x, w = jnp.ones((tokens, inner)), jnp.ones((inner, outer))
        product = jax.jit(lambda x, w: x @ w)
        run = _timed(lambda product=product, x=x, w=w: product(x, w))
        seconds[inner, outer] = statistics.median(_in_turns({"product": run})["product"])
    return 3 * sum(seconds[shape] for shape in widths)  # forward, and two gradients


def _torch_steppers(
    config: TransformerConfig, training: TrainingConfig, directory: Path
) -> dict[str, Callable[[], float]]:
    """Name -> what does a round of steps in PyTorch and gives the seconds of one."""
    import jax.numpy as jnp

    from t2t_jax.cores import own_cores
    from t2t_jax.model.positions import sinusoids

    sizes = {**dataclasses.asdict(config), "label_smoothing": training.label_smoothing}
    sizes |= dict(num_threads=len(own_cores()), steps=_STEPS_A_ROUND, shape=(_ROWS, _LENGTH))
    sizes["positions"] = sinusoids(jnp.arange(_LENGTH), config.d_model).tolist()
    command = [sys.executable, "-m", "experiments.benchmarks.peers.torch_step"]

    def stepper(environment: dict[str, str]) -> Callable:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        questions, answers = process.stdin, process.stdout
        assert questions is not None and answers is not None
        print(json.dumps(sizes), file=questions, flush=True)

        def seconds() -> float:
            print(file=questions, flush=True)
            answer = answers.readline()
            if not answer:
                sys.exit("plain_step: PyTorch has ended; its last words stand above")
            return float(answer)

        return seconds

    steppers = {"torch": stepper({})}
    if (library := _library_for_avx512(directory)) is not None:
        steppers["torch_avx512"] = stepper({"LD_PRELOAD": str(library)})
    return steppers


def _library_for_avx512(directory: Path) -> Path | None:
    """What has Intel's library of products take any processor for its own; None without a compiler.

    It takes the path with AVX-512 only where the processor has it.
    """
    if (compiler := shutil.which("cc")) is None:
        return None
    source, library = directory / "intel.c", directory / "intel.so"
    source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def _timed(run: Callable) -> Callable[[], float]:
    """What calls `run` for a round and gives the seconds of one call."""
    import jax

    def seconds() -> float:
        started, result = time.perf_counter(), None
        for _ in range(_STEPS_A_ROUND):
            result = run()
        jax.block_until_ready(result)
        return (time.perf_counter() - started) / _STEPS_A_ROUND

    return seconds


def _in_turns(steppers: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """The seconds of each in rounds in which they take turns, but for the first, which compiles."""
    rounds = [{name: run() for name, run in steppers.items()} for _ in range(_ROUNDS + 1)]
    return {name: [seconds[name] for seconds in rounds[1:]] for name in steppers}


def _main(_: list[str]) -> None:
    """Measures and prints one JSON object."""
    against = flags.FLAGS.against
    if against and importlib.util.find_spec(against) is None:
        sys.exit(
            f"plain_step: {against} is not installed: pip install -c constraints.txt -e '.[parity]'"
        )
    if any(name not in os.environ for name in FASTER_ALLOCATION):
        command = [sys.executable, "-m", "experiments.benchmarks.plain_step", *sys.argv[1:]]
        os.execve(sys.executable, command, {**FASTER_ALLOCATION, **os.environ})
    import jax

    from t2t_jax.data.batches.batches import Batch

    sections = flags.FLAGS.config
    config = TransformerConfig(**{**sections.model, **_SMALL})
    training = TrainingConfig(**sections.training)
    ids = np.random.default_rng(0).integers(4, config.vocabulary_rows, (2, _ROWS, _LENGTH))
    batch = jax.device_put(Batch(*ids.astype(np.int32)))

    def stepper(state, step) -> Callable[[], float]:
        step = jax.jit(step, donate_argnums=0)
        box = [state]

        def run():
            box[0], result = step(box[0], batch)
            return result

        return _timed(run)

    steppers = {
        "ours": stepper(*our_step(config, training)),
        "plain": stepper(*plain_step(config, training)),
    }
    with tempfile.TemporaryDirectory() as directory:
        if against:
            steppers |= _torch_steppers(config, training, Path(directory))
        seconds = _in_turns(steppers)
    tokens = _ROWS * _LENGTH
    measured = {
        f"{name}_tokens_per_second": tokens / statistics.median(taken)
        for name, taken in seconds.items()
    }
    measured["products_alone_tokens_per_second"] = tokens / products_alone(config)
    for name in list(seconds)[1:]:
        ratios = [other / own for other, own in zip(seconds[name], seconds["ours"], strict=True)]
        measured[f"ours_over_{name}"] = statistics.median(ratios)
    print(json.dumps({name: round(value, 3) for name, value in measured.items()}, indent=2))


if __name__ == "__main__":
    config_flags.DEFINE_config_file(
        "config", None, "its keys that are no sizes: a file of configs/"
    )
    flags.mark_flag_as_required("config")
    flags.DEFINE_enum("against", "", ["", "torch"], "what takes turns with it besides")
    app.run(_main, flags_parser=functools.partial(parse_flags, "plain_step"))
