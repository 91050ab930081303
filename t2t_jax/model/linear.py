"""Linear maps: computed in the type of the activations, learned in float32.

Axes: N rows, I inputs, O outputs.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from t2t_jax.model.products import are_rounded, is_in_bfloat16, product, rounded


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
            # Drawn as one matrix, whatever its axes: Glorot's fans are those of the product.
            return self.kernel_init(key, flat).reshape(shape)

        kernel = self.param("kernel", draw, (*inner, *self.features))
        bias = None
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros_init(), self.features).reshape(-1)
        rows = x.astype(self.dtype).reshape(-1, flat[0])
        return affine(rows, kernel.reshape(flat), bias).reshape(*others, *self.features)


def of_one_product(
    x: Float[Array, "B S I"], linears: Sequence[Linear]
) -> list[Float[Array, "B S H _"]]:
    """Several maps from one axis to two, with equal H, applied to the same x as one product.

    They must be initialised.
    """
    kernel, bias = _side_by_side(linears)
    rows = x.astype(linears[0].dtype).reshape(-1, x.shape[-1])
    product = affine(rows, kernel.reshape(len(kernel), -1), None if bias is None else bias.ravel())
    return _taken_apart(product.reshape(*x.shape[:-1], *kernel.shape[1:]), linears)


def into_heads(
    x: Float[Array, "B S I"], linears: Sequence[Linear]
) -> list[Float[Array, "B H S _"]]:
    """The same with heads first, which saves an accelerator the copy of a transpose."""
    product = _affine_into_heads(x.astype(linears[0].dtype), *_side_by_side(linears))
    return _taken_apart(product, linears)


def out_of_heads(x: Float[Array, "B H S K"], linear: Linear) -> Float[Array, "B S O"]:
    """A map from two axes to one, applied to input with heads first."""
    params = linear.variables["params"]
    return _affine_out_of_heads(x.astype(linear.dtype), params["kernel"], params.get("bias"))


def _side_by_side(
    linears: Sequence[Linear],
) -> tuple[Float[Array, "I H _"], Float[Array, "H _"] | None]:
    """Their parameters, concatenated along the last axis: H stays split over devices."""
    params = [linear.variables["params"] for linear in linears]
    kernel = jnp.concatenate([each["kernel"] for each in params], axis=-1)
    if not linears[0].use_bias:
        return kernel, None
    return kernel, jnp.concatenate([each["bias"] for each in params], axis=-1)


def _taken_apart(product: Float[Array, "..."], linears: Sequence[Linear]) -> list[Array]:
    widths = [linear.features[-1] for linear in linears]
    return jnp.split(product, list(itertools.accumulate(widths))[:-1], axis=-1)


def dense(
    features: int, dtype: DTypeLike, *, use_bias: bool = True, name: str | None = None
) -> Linear:
    """x W + b, with Glorot's initialisation of W."""
    return Linear((features,), use_bias=use_bias, dtype=dtype, name=name)


@jax.custom_vjp
def affine(
    x: Float[Array, "N I"], kernel: Float[Array, "I O"], bias: Float[Array, " O"] | None
) -> Float[Array, "N O"]:
    """x W + b in the type of `x`; gradients of W and b are summed over rows in their own type.

    In training and in a search, the products may be rounded (products.py).
    """
    # Two matrices: with more axes, the gradient would need a transposed copy of the activations, on
    # a CPU a fifth of the time of a feed-forward layer.
    if is_in_bfloat16(kernel, x.dtype):
        y = product(rounded(x), kernel)
    else:
        y = x @ kernel.astype(x.dtype)
    return y if bias is None else y + bias.astype(x.dtype)[None]


def _forward(x, kernel, bias):
    if not are_rounded(x.dtype):
        return affine(x, kernel, bias), (x, kernel, bias)
    x = rounded(x)
    y = product(x, rounded(kernel))
    return y if bias is None else y + bias[None], (x, kernel, bias)


def _backward(kept, grad):
    x, kernel, bias = kept
    bias_grad = None if bias is None else grad.sum(axis=0, dtype=bias.dtype)
    if are_rounded(grad.dtype):
        grad = rounded(grad)
        return product(grad, rounded(kernel).T), product(x.T, grad), bias_grad
    kernel_grad = jnp.einsum("NI,NO->IO", x, grad, preferred_element_type=kernel.dtype)
    return grad @ kernel.astype(x.dtype).T, kernel_grad, bias_grad


affine.defvjp(_forward, _backward)


def _affine_by(
    product: str, of_bias: str
) -> Callable[[Array, Array, Float[Array, "..."] | None], Array]:
    """`affine` over more axes, as an einsum of x and W; `of_bias` names the bias's axes in y."""
    operands, y = product.split("->")
    x, w = operands.split(",")

    @jax.custom_vjp
    def affine_of(inputs: Array, kernel: Array, bias: Array | None) -> Array:
        found = jnp.einsum(product, inputs, kernel.astype(inputs.dtype))
        if bias is None:
            return found
        shape = [size if axis in of_bias else 1 for axis, size in zip(y, found.shape, strict=True)]
        return found + bias.astype(inputs.dtype).reshape(shape)

    def forward(inputs, kernel, bias):
        return affine_of(inputs, kernel, bias), (inputs, kernel, bias)

    def backward(kept, grad):
        inputs, kernel, bias = kept
        of_inputs = jnp.einsum(f"{y},{w}->{x}", grad, kernel.astype(inputs.dtype))
        of_kernel = jnp.einsum(f"{x},{y}->{w}", inputs, grad, preferred_element_type=kernel.dtype)
        if bias is None:
            return of_inputs, of_kernel, None
        summed = tuple(place for place, axis in enumerate(y) if axis not in of_bias)
        return of_inputs, of_kernel, grad.sum(summed, dtype=bias.dtype)

    affine_of.defvjp(forward, backward)
    return affine_of


_affine_into_heads = _affine_by("BSI,IHK->BHSK", "HK")
_affine_out_of_heads = _affine_by("BHSK,HKO->BSO", "O")
