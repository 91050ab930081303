"""The interface of every family to training, and of translation models to decoding.

Methods are called on a model bound to its parameters, `model.bind({"params": params})`.

Axes: B batch, W beam width, N = B W decoded rows, T target positions, S source positions,
E features whose products are logits.
"""

from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from jaxtyping import Array, Float, Int, PyTree

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.masks import Packing

M = TypeVar("M")


class Inputs(NamedTuple):
    """What a model reads in training; each family reads only the sides it uses."""

    source_ids: Int[Array, "B S"]
    target_inputs: Int[Array, "B T"]  # begin with the start token
    packings: tuple[Packing, Packing] | None = None  # of source and target

    @property
    def source_packing(self) -> Packing | None:
        """The packing of the source, if any."""
        return None if self.packings is None else self.packings[0]

    @property
    def target_packing(self) -> Packing | None:
        """The packing of the target, if any."""
        return None if self.packings is None else self.packings[1]


@runtime_checkable
class Model(Protocol):
    """A trainable model of any family."""

    config: TransformerConfig

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """Two factors whose `table_logits` are the logits.

        With them, a loss need not hold all logits at once. An ensemble is trained on those of its
        members.
        """
        ...

    # Every Linen module has these.
    def init(self, rngs: Any, *arguments: Any, **options: Any) -> Any: ...
    def apply(self, variables: Any, *arguments: Any, **options: Any) -> Any: ...
    def bind(self: M, variables: Any, *, rngs: Any = None) -> M: ...


@runtime_checkable
class TranslationModel(Model, Protocol):
    """A model that writes a translation token by token from an encoded source."""

    def __call__(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """Logits of the token after each of `target_inputs`, which begin with the start token."""
        ...

    def encode(self, source_ids: Int[Array, "B S"], *, deterministic: bool) -> Any:
        """The source for `decode_step`, encoded once.

        Its `states` are the encoder's output; an ensemble has a list of such.
        """
        ...

    def start_cache(self, encoded: Any, num_rows: int, max_length: int) -> PyTree[Array]:
        """The initial cache of `decode_step`, with room for `max_length` positions."""
        ...

    def decode_step(
        self,
        cache: Any,
        encoded: Any,
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], PyTree[Array]]:
        """Logits of the token after `last_ids`, which are at `position`, and the updated cache.

        The W rows of a sentence, its beams, are adjacent: N = B W.
        """
        ...
