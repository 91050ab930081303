"""Linear maps: multiplied in the type of the activations, learned in float32.

Axes: N rows, I inputs, O outputs.
"""

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float


class Linear(nn.Module):
    """x W + b over the last `num_axes` axes of x."""

    features: tuple[int, ...]
    num_axes: int = 1
    use_bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.xavier_uniform()
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        others, inner = x.shape[: -self.num_axes], x.shape[-self.num_axes :]
        flat = math.prod(inner), math.prod(self.features)

        def draw(key, shape):
            # One matrix, whatever its axes: the fans of Glorot's rule are those of the product.
            return self.kernel_init(key, flat).reshape(shape)

        kernel = self.param("kernel", draw, (*inner, *self.features))
        bias = None
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros_init(), self.features).reshape(-1)
        rows = x.astype(self.dtype).reshape(-1, flat[0])
        return affine(rows, kernel.reshape(flat), bias).reshape(*others, *self.features)


def of_one_product(
    x: Float[Array, "... I"], linears: Sequence[Linear]
) -> list[Float[Array, "... H _"]]:
    """What maps from one axis to two, H alike in all, make of the same x: W side by side as one W.

    They have their parameters already.
    """
    params = [linear.variables["params"] for linear in linears]
    # Along the last axis: what is cut over devices along H stays so.
    kernel = jnp.concatenate([each["kernel"] for each in params], axis=-1)  # I H K
    bias = None
    if linears[0].use_bias:
        bias = jnp.concatenate([each["bias"] for each in params], axis=-1).reshape(-1)
    rows = x.astype(linears[0].dtype).reshape(-1, x.shape[-1])
    product = affine(rows, kernel.reshape(len(kernel), -1), bias)
    product = product.reshape(*x.shape[:-1], *kernel.shape[1:])
    widths = [each["kernel"].shape[-1] for each in params]
    return jnp.split(product, list(itertools.accumulate(widths))[:-1], axis=-1)


def dense(
    features: int, dtype: DTypeLike, *, use_bias: bool = True, name: str | None = None
) -> Linear:
    """x W + b, where W is drawn by Glorot's rule."""
    return Linear((features,), use_bias=use_bias, dtype=dtype, name=name)


@jax.custom_vjp
def affine(
    x: Float[Array, "N I"], kernel: Float[Array, "I O"], bias: Float[Array, " O"] | None
) -> Float[Array, "N O"]:
    """x W + b in the type of `x`; the gradients of W and b are sums over the rows in their own."""
    # Of two matrices: with more axes the gradient would go through a transposed copy of the
    # activations, on a CPU a fifth of the time of a feed-forward layer.
    product = x @ kernel.astype(x.dtype)
    return product if bias is None else product + bias.astype(x.dtype)[None]


def _forward(x, kernel, bias):
    return affine(x, kernel, bias), (x, kernel, bias)


def _backward(kept, grad):
    x, kernel, bias = kept
    kernel_grad = jnp.einsum("NI,NO->IO", x, grad, preferred_element_type=kernel.dtype)
    bias_grad = None if bias is None else grad.sum(axis=0, dtype=bias.dtype)
    return grad @ kernel.astype(x.dtype).T, kernel_grad, bias_grad


affine.defvjp(_forward, _backward)
