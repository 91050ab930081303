"""Products of float32 matrices whose operands are rounded to bfloat16, if asked.

On a CPU, `devices.matmul_precision="default"` asks for them in training; anywhere,
`decoding.weights_dtype="bfloat16"` in a search. They are those of linear layers and logits.
Attention's own two products, recurrent cells and the optimizer stay in float32, as do all sums.
Processors that multiply bfloat16 (AVX512-BF16, AMX) need a half to a fifth of the time for many
rows, and more for one.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, BFloat16, Float, Float32, PyTree

from t2t_jax.devices import ROUNDS_ON_CPU
from t2t_jax.model.layouts import row_by_row


def are_rounded(dtype: DTypeLike) -> bool:
    """Whether what is being traced trains with rounded products, in place of those of `dtype`."""
    asked = jax.config.jax_default_matmul_precision  # pyright: ignore
    return dtype == jnp.float32 and asked == ROUNDS_ON_CPU


def in_bfloat16(params: PyTree) -> PyTree:
    """`params` for a search with rounded products: what x is multiplied by is in bfloat16.

    These are the matrices of linear layers, and the table of the logits. Recurrent cells, norms,
    biases, positions and tables that are only looked up are as they were.
    """
    places = {_names(path)[:-1] for path, _ in jax.tree_util.tree_leaves_with_path(params)}

    def of_products(path: tuple[Any, ...], leaf: Any) -> Any:
        *modules, name = _names(path)
        is_matrix = name == "kernel" and "cell" not in modules
        own_of_logits = (*modules[:-1], "output_embedding")
        of_logits = own_of_logits if own_of_logits in places else (*modules[:-1], "embedding")
        is_of_logits = name == "table" and tuple(modules) == of_logits
        return leaf.astype(jnp.bfloat16) if is_matrix or is_of_logits else leaf

    return jax.tree_util.tree_map_with_path(of_products, params)


def _names(path: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(key.key for key in path)


def is_in_bfloat16(weights: Float[Array, "..."], dtype: DTypeLike) -> bool:
    """Whether a search multiplies by these weights, in place of products of `dtype`."""
    return dtype == jnp.float32 and weights.dtype == jnp.bfloat16


def rounded(x: Float[Array, "..."]) -> BFloat16[Array, "..."]:
    """`x` in bfloat16, for `product`."""
    return x.astype(jnp.bfloat16)


def product(x: BFloat16[Array, "N I"], y: BFloat16[Array, "I O"]) -> Float32[Array, "N O"]:
    """x y, summed in float32."""
    # XLA's fast products take matrices stored row by row alone. It would not copy a transposed one
    # by itself, and multiply it slowly, or not at all.
    columns_by_rows = (((1,), (0,)), ((), ()))
    return row_by_row(
        jax.lax.dot_general(
            *(row_by_row(x), row_by_row(y), columns_by_rows), preferred_element_type=jnp.float32
        )
    )
