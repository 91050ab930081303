"""Captures attention weights and hidden states while a model runs, on request.

Modules `sow` their results, which does nothing unless they are captured: it leaves no trace in the
compiled programs of training and decoding. `capture_modules` captures more: the output of each
module.
"""

from collections.abc import Callable
from typing import Any

from flax.traverse_util import flatten_dict
from jaxtyping import Array, PyTree

from t2t_jax.model.interface import Model

Captured = dict[str, Array]


def capture(
    model: Model, params: PyTree, method: Callable | None, *args: Any, **kwargs: Any
) -> tuple[Any, Captured]:
    """The result of `method` of `model` (None: `__call__`), and everything captured on the way.

    The keys are dotted module paths:

        encoder.embedded                               B T D, the input of the first layer
        encoder.layers_0.output                        B T D, the output of a layer
        encoder.output                                 B T D, after the final norm if there is one
        encoder.layers_0.self_attentions_0.weights     B H T S, before dropout
        decoder.layers_0.cross_attention.weights       B H T S

    A running search cannot be captured; `decoding.replay` returns what it saw. In `decode_step`, T
    is 1 and S the length of the cache; in attention to the source, B counts sentences and T the
    beams of each.
    """
    output, variables = model.apply(
        {"params": params}, *args, method=method, mutable=["intermediates"], **kwargs
    )
    captured: dict[Any, Any] = flatten_dict(variables.get("intermediates", {}), sep=".")
    arrays = {path: array for path, (array,) in captured.items() if not path.endswith(".mask")}
    return output, arrays


def capture_modules(
    model: Model, params: PyTree, *args: Any, **kwargs: Any
) -> tuple[Any, dict[str, tuple[Any, ...]]]:
    """The result of `__call__` of `model`, and the output of each module on the way.

    Besides the keys of `capture`, there is a key for each module and method, with one value per
    call:

        encoder.layers_0.__call__                           the layer's output, and the keys and
                                                            values of each of its self-attentions
        encoder.layers_0.self_attentions_0.query.__call__   B T H K, before any rotation
        encoder.layers_0.self_attentions_0.mask             B or 1, T or 1, S: True: may attend
        encoder.layers_0.self_attentions_0.attend           B T D, the update of the sub-layer
        encoder.layers_0.self_attention_residuals_0.__call__    B T D, after residual and norm
        encoder.layers_0.feed_forward.inner.__call__        B T F, before the activation
        encoder.positions.__call__                          EncodedPositions
    """
    output, variables = model.apply(
        {"params": params},
        *args,
        mutable=["intermediates"],
        capture_intermediates=lambda _, method: method in ("__call__", "attend"),
        **kwargs,
    )
    heard: dict[Any, Any] = flatten_dict(variables.get("intermediates", {}), sep=".")
    return output, heard
