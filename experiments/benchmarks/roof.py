"""The roof: the time of the matrix products alone, each timed by itself at its own shape.

Without attention's own products, and with gradients as fast as what they are of. Of XLA's products:
another library's may be faster.
"""

import time
from collections.abc import Callable
from functools import partial

from experiments.benchmarks.sizes import Size
from t2t_jax.model.config import TransformerConfig

PRODUCTS = "products alone"  # their name in results
# In a round of one product: about a tenth of a second on two cores, or start-up would count.
_OPERATIONS = 20_000_000_000

_Widths = list[tuple[int, int]]  # for x @ w: the width of x, and of the result


def of_a_step(config: TransformerConfig, size: Size) -> Callable[[], float]:
    """A function that times the products of a training step on a full batch, in seconds."""
    widths = [*_of_source(config), *_of_target(config)]
    forward = _products(widths, size.tokens)
    return lambda: 3 * forward()  # and two gradients


def is_plain(config: TransformerConfig) -> bool:
    """Whether these are all products of a model: no other family, parts or widths."""
    widths = {config.d_model, config.num_heads * config.d_k, config.num_heads * config.d_v}
    numbers = config.ensemble_size, config.num_self_attentions, len(widths)
    return config.family == "encoder_decoder" and config.feed_forward and {*numbers} == {1}


def of_decoding(
    config: TransformerConfig, num_source: int, num_target: int, rows: int = 512
) -> Callable[[], float]:
    """The same for decoding `num_target` from `num_source` tokens, in products of `rows` rows."""
    source = _products(_of_source(config), rows)
    target = _products(_of_target(config), rows)
    return lambda: (num_source * source() + num_target * target()) / rows


def _of_source(config: TransformerConfig) -> _Widths:
    """Widths for each source token: the encoder, and keys and values for the decoder."""
    in_layers = _layers(config, config.num_encoder_layers, 4)
    return in_layers + [(config.d_model, config.d_model)] * 2 * config.num_decoder_layers


def _of_target(config: TransformerConfig) -> _Widths:
    """Widths for each target token."""
    logits = config.d_model, config.vocabulary_rows
    return [*_layers(config, config.num_decoder_layers, 6), logits]


def _layers(config: TransformerConfig, num_layers: int, projections: int) -> _Widths:
    d, d_ff = config.d_model, config.d_ff
    return ([(d, d)] * projections + [(d, d_ff), (d_ff, d)]) * num_layers


def _products(widths: _Widths, rows: int) -> Callable[[], float]:
    import jax
    import jax.numpy as jnp

    # Into existing memory, as in a compiled step.
    product = jax.jit(lambda x, w, _: x @ w, donate_argnums=2, keep_unused=True)
    arrays = {
        (inner, outer): [
            jnp.ones(shape) for shape in ((rows, inner), (inner, outer), (rows, outer))
        ]
        for inner, outer in set(widths)
    }

    def run(of: list) -> object:
        of[2] = product(*of)
        return of[2]

    def times(inner: int, outer: int) -> int:
        return min(max(_OPERATIONS // (2 * rows * inner * outer), 4), 64)

    def seconds() -> float:
        once = {
            width: seconds_after_one(partial(run, of), times(*width))
            for width, of in arrays.items()
        }
        return sum(once[width] for width in widths)

    return seconds


def seconds_after_one(run: Callable, times: int) -> float:
    """Seconds per call after one that is not timed.

    The first may compile, and memory that was freed before a pause can be slow to come back.
    """
    seconds_of(run, 1)
    return seconds_of(run, times)


def seconds_of(run: Callable, times: int) -> float:
    """Seconds per call, over `times` calls."""
    import jax

    started, result = time.perf_counter(), None
    for _ in range(times):
        result = run()
    jax.block_until_ready(result)
    return (time.perf_counter() - started) / times
