"""Looking inside a model while it runs: attention weights and hidden states, on request.

Modules hand out what they make by `sow`, which does nothing unless somebody listens: the program
that is compiled for training or decoding has no trace of it. `capture_modules` hears more: what
each module gives back.
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
    """What `method` of `model` returns (None: `__call__`), and all that was made on the way.

    The keys are dotted paths of modules:

        encoder.embedded                               B T D, what the first layer sees
        encoder.layers_0.output                        B T D, what a layer hands on
        encoder.output                                 B T D, after the final norm if there is one
        encoder.layers_0.self_attentions_0.weights     B H T S, before dropout
        decoder.layers_0.cross_attention.weights       B H T S

    A search cannot be asked while it runs; `decoding.replay` gives what it saw. In `decode_step` T
    is 1 and S the length of the cache; for attention to the source B counts the sentences and T
    the beams of each.
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
    """What `__call__` of `model` returns, and what each module gave back on the way.

    Beside the keys of `capture` there are, by the name of a module and its method, as many values
    as there were calls:

        encoder.layers_0.__call__                           the layer's output, and what each of its
                                                            self-attentions looked at
        encoder.layers_0.self_attentions_0.query.__call__   B T H K, not turned by any angle
        encoder.layers_0.self_attentions_0.mask             B or 1, T or 1, S: True means may look
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
