"""How much arithmetic a training step is: its matrix products, counted exactly before it is run.

A step is traced once, at sizes by which each product tells how it grows with the batch: primes.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, jaxprs_in_params
from jaxtyping import Integer

from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.training.loss import make_loss_fn

# Rows, source and target length while tracing: no size of a model has one as a factor.
_ROWS, _SOURCE, _TARGET = _PRIMES = 1_000_000_007, 1_000_000_009, 1_000_000_021
# The largest size of a model; what is larger and no multiple of the primes came of them in another
# way, such as a length cut in blocks.
_LARGEST = 2**22
_Sizes = int | Integer[np.ndarray, " n"]


class Operations(NamedTuple):
    """Multiplications and additions of a step's products, forward and backward.

    Those of the optimizer, which only muon has, are not counted, nor what is computed again to save
    memory, nor the padding of a loss that is computed in chunks.
    """

    terms: dict[tuple[int, ...], int]  # powers of rows, source and target length -> factor

    def of(self, rows: _Sizes, source_length: _Sizes, target_length: _Sizes) -> Any:
        """Those of batches of these shapes; a sentence by itself is a batch without padding."""
        sizes = [np.asarray(each, np.float64) for each in (rows, source_length, target_length)]
        return sum(
            factor * math.prod(size**power for size, power in zip(sizes, powers, strict=True))
            for powers, factor in self.terms.items()
        )


@cache
def step_operations(config: TransformerConfig) -> Operations:
    """Those of a model of any family.

    Raises:
      ValueError: a size of some product is no multiple of the batch's sizes, or too large.
    """
    plain: Any = dict(rematerialise=False, scan_layers=False, fused_projections=False)
    plain |= dict(attention_kernel="einsum", dropout_bits=32)
    model = make_model(dataclasses.replace(config, max_positions=max(_PRIMES), **plain))
    gradients = jax.grad(make_loss_fn(model, label_smoothing=0.1), has_aux=True)
    key = jax.eval_shape(lambda: jax.random.key(0))
    traced = jax.make_jaxpr(gradients)(parameter_shapes(model), _batch(config), key)
    terms: Counter[tuple[int, ...]] = Counter()
    for sizes in _products(traced.jaxpr):
        factor, powers = _factored(sizes)
        terms[powers] += 2 * factor
    return Operations(dict(terms))


def _batch(config: TransformerConfig) -> Batch:
    """What this model is trained on, see `Batch`, of prime sizes."""
    source, target = _SOURCE, _TARGET
    match config.family, config.pooling:
        case "decoder_only", _:
            source = 0
        case "encoder_only", "none":
            target = source
        case "encoder_only", _:
            target = 1
        case (("encoder_decoder" | "recurrent"), _):
            pass
    sides: list[Any] = [jax.ShapeDtypeStruct((_ROWS, each), jnp.int32) for each in (source, target)]
    return Batch(*sides)


def _products(jaxpr: Jaxpr) -> Iterator[list[int]]:
    """Of each product in a program and those that it calls: the sizes that it loops over."""
    for step in jaxpr.eqns:
        if step.primitive.name == "dot_general":
            (summed, _), _ = step.params["dimension_numbers"]
            arrays: list[Any] = [step.invars[0].aval, step.outvars[0].aval]
            left, result = (array.shape for array in arrays)
            yield [*result, *(left[axis] for axis in summed)]
        times = [step.params["length"]] if step.primitive.name == "scan" else []
        for inner in jaxprs_in_params(step.params):
            yield from (sizes + times for sizes in _products(inner))


def _factored(sizes: list[int]) -> tuple[int, tuple[int, ...]]:
    """The product of sizes as a factor, and the powers of rows, source and target length."""
    factor, powers = 1, [0] * len(_PRIMES)
    for size in sizes:
        rest = size
        for place, prime in enumerate(_PRIMES):
            while rest and rest % prime == 0:
                rest //= prime
                powers[place] += 1
        if rest > _LARGEST:
            raise ValueError(
                f"a matrix product of a step has a size of {size}, where a batch has {_PRIMES} "
                f"rows and tokens: no multiple of them, and no size of a model up to {_LARGEST}"
            )
        factor *= rest
    return factor, tuple(powers)
