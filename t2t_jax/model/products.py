"""Products of float32 matrices whose operands are rounded to bfloat16: training on a CPU, if asked.

`devices.matmul_precision="default"` asks for them, for linear layers and logits. Attention's own
two products, recurrent cells and the optimizer stay in float32, as do all sums. Processors that
multiply bfloat16 (AVX512-BF16, AMX) may need only half the time.
"""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, BFloat16, Float, Float32

from t2t_jax.devices import ROUNDS_ON_CPU
from t2t_jax.model.layouts import row_by_row


def are_rounded(dtype: DTypeLike) -> bool:
    """Whether what is being traced trains with rounded products, in place of those of `dtype`."""
    asked = jax.config.jax_default_matmul_precision  # pyright: ignore
    return dtype == jnp.float32 and asked == ROUNDS_ON_CPU


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
