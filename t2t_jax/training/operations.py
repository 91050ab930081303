"""The arithmetic of a training step: its matrix products, counted exactly before it runs.

A step is traced once, with primes as batch sizes, which show how each product grows with the batch.
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

# Rows, source and target length for tracing: no model size has one as a factor.
_ROWS, _SOURCE, _TARGET = _PRIMES = 1_000_000_007, 1_000_000_009, 1_000_000_021
# The largest size of a model; a larger one that is no multiple of the primes comes from them in
# another way, such as a length cut into blocks.
_LARGEST = 2**22
_Sizes = int | Integer[np.ndarray, " n"]


class Operations(NamedTuple):
    """Multiplications and additions of a step's products, forward and backward.

    Not counted: the products of the optimizer, which only muon has, recomputation to save memory,
    and the padding of a loss computed in chunks.
    """

    terms: dict[tuple[int, ...], int]  # powers of rows, source and target length -> factor

    def of(self, rows: _Sizes, source_length: _Sizes, target_length: _Sizes) -> Any:
        """The operations of batches of these shapes; one sentence is a batch without padding."""
        sizes = [np.asarray(each, np.float64) for each in (rows, source_length, target_length)]
        return sum(
            factor * math.prod(size**power for size, power in zip(sizes, powers, strict=True))
            for powers, factor in self.terms.items()
        )


@cache
def step_operations(config: TransformerConfig) -> Operations:
    """The operations of a model of any family.

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
    """This model's training batch, see `Batch`, with prime sizes."""
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
    """For each product in a program and the programs it calls: the sizes it loops over."""
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
    """The product of `sizes`, as a factor and powers of rows, source and target length."""
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
