"""What a model is to training, whatever its family, and to decoding, where it translates.

Its methods are called on the model with its parameters, `model.bind({"params": params})`.

Axes: B batch, W beam width, N = B W rows that are decoded, T target positions, S source
positions, E features whose products are logits.
"""

from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from jaxtyping import Array, Float, Int, PyTree

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.masks import Packing

M = TypeVar("M")


class Inputs(NamedTuple):
    """What a model reads in training; each family reads the sides that it has."""

    source_ids: Int[Array, "B S"]
    target_inputs: Int[Array, "B T"]  # open with the start token
    packings: tuple[Packing, Packing] | None = None  # of both sides

    @property
    def source_packing(self) -> Packing | None:
        """That of the source, where there is one."""
        return None if self.packings is None else self.packings[0]

    @property
    def target_packing(self) -> Packing | None:
        """That of the target, where there is one."""
        return None if self.packings is None else self.packings[1]


@runtime_checkable
class Model(Protocol):
    """A model of any family, to be trained."""

    config: TransformerConfig

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """The factors whose `table_logits` are the logits of what is to be predicted.

        So that a loss need not hold the logits all at once.
        """
        ...

    # Of every Linen module.
    def init(self, rngs: Any, *arguments: Any, **options: Any) -> Any: ...
    def apply(self, variables: Any, *arguments: Any, **options: Any) -> Any: ...
    def bind(self: M, variables: Any, *, rngs: Any = None) -> M: ...


@runtime_checkable
class TranslationModel(Model, Protocol):
    """A model that writes a translation token by token, looking at what it made of the source."""

    def __call__(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """Logits of the token after each of `target_inputs`, which open with the start token."""
        ...

    def encode(self, source_ids: Int[Array, "B S"], *, deterministic: bool) -> Any:
        """What `decode_step` looks at, made once for all steps; `states` are the encoder's."""
        ...

    def start_cache(self, encoded: Any, num_rows: int, max_length: int) -> PyTree[Array]:
        """What `decode_step` wants before the first step, with room for `max_length` positions."""
        ...

    def decode_step(
        self,
        cache: Any,
        encoded: Any,
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], PyTree[Array]]:
        """Logits of the token after `last_ids`, which stand at `position`, and the cache with them.

        The W rows of a sentence, its beams, stand next to each other: N = B W.
        """
        ...
