"""What is shown for one sentence and one model: tokens and captured arrays.

All arrays are numpy's, in float32. Axes: T query positions, S key positions, H heads, D d_model,
K d_k, P positions of a table, N layers, L layers and the embeddings before them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from t2t_jax.decoding.search_tree import SearchTree

# What attends to what: a stack to itself, the decoder to the encoder's output, a classifier's
# learned query to all tokens.
Looks = Literal["encoder", "decoder", "cross", "pooling"]


class Token(NamedTuple):
    """A piece of text as the vocabulary writes it."""

    id: int
    piece: str


class Attention(NamedTuple):
    """The heads of one attention sub-layer."""

    looks: Looks
    layer: int  # from 0
    number: int  # of the self-attention in this layer, from 0
    weights: Float[np.ndarray, "H T S"]  # the captured softmax
    mask: Float[np.ndarray, "T S"]  # 1 where the query may attend to the key, else 0
    scores: Float[np.ndarray, "H T S"]  # Q K^T / divisor, before bias and mask
    divisor: float  # the paper's is sqrt(d_k)
    query: Float[np.ndarray, "H T K"]
    key: Float[np.ndarray, "H S K"]
    bias: Float[np.ndarray, "#H T S"] | None = None  # of relative positions and ALiBi
    context_cosine: Float[np.ndarray, "H T T"] | None = None  # between the contexts of two queries


class SubLayer(NamedTuple):
    """What a sub-layer, its residual sum and norm do to the vector of each token."""

    name: str  # "self_attention", "cross_attention", "feed_forward"
    layer: int
    length: Float[np.ndarray, " T"]  # |x|, of the input x
    update: Float[np.ndarray, " T"]  # |Sublayer(x)|
    cosine: Float[np.ndarray, " T"]  # between input and output


class Neighbour(NamedTuple):
    """A row of the embedding in a similar direction."""

    token: Token
    cosine: float


class Place(NamedTuple):
    """A piece on the map of the embedding's two main directions."""

    token: Token
    x: float
    y: float
    is_of_text: bool  # else a neighbour


class PositionsOfModel(NamedTuple):
    """How positions enter the model."""

    kind: str  # `model.positions`
    vectors: Float[np.ndarray, "P D"] | None  # added to the embeddings
    likeness: Float[np.ndarray, "P P"] | None  # cosine; for rotary, the share left by rotation
    bias: Float[np.ndarray, "H P P"] | None  # added to the scores


class Stack(NamedTuple):
    """An encoder or a decoder."""

    name: Literal["encoder", "decoder"]
    tokens: list[Token]  # its input
    embedding: Float[np.ndarray, "T D"]
    neighbours: list[list[Neighbour]]  # of each token
    map: list[Place]
    positions: PositionsOfModel | None
    embedded: Float[np.ndarray, "T D"]  # with positions: the input of the first layer
    attentions: list[Attention]
    sub_layers: list[SubLayer]
    active: Float[np.ndarray, "N T"] | None  # share of feed-forward units above 0
    # Between tokens: as embedded, after each layer and, with norm="pre", after the last norm.
    cosine: Float[np.ndarray, "L T T"]


class Candidate(NamedTuple):
    """A possible next token, with the model's logit and probability."""

    token: Token
    logit: float
    probability: float  # among all rows of the model's vocabulary


class Step(NamedTuple):
    """The model's predictions at one position."""

    chosen: Candidate  # the next token of the text shown
    is_given: bool  # part of a prompt or of the text itself: not the model's choice
    best: list[Candidate]  # likeliest first


class Search(NamedTuple):
    """A search for a translation."""

    name: Literal["greedy", "beam"]
    tree: SearchTree
    pieces: list[str]  # of each node
    text: str
    score: float


class Class(NamedTuple):
    """A class, with a classifier's logit and probability."""

    name: str
    logit: float
    probability: float


class Document(NamedTuple):
    """Everything shown for one sentence and one model."""

    label: str  # of the model
    facts: Mapping[str, Any]  # keys of its config, its parameters and its step
    text: str  # the input
    output: str | None  # a translation, or a text with its continuation
    stacks: list[Stack]
    steps: list[Step]  # of the decoder; for a masked language model, a guess per token
    searches: list[Search]
    classes: list[Class]
    layouts: Mapping[str, Float[np.ndarray, "P D"]]  # of sinusoids, in the paper and elsewhere
    is_control: bool = False  # with random projections

    def stack(self, name: str) -> Stack | None:
        """The encoder or the decoder, if the model has one."""
        return next((stack for stack in self.stacks if stack.name == name), None)

    def attentions(self) -> Iterator[Attention]:
        """Every attention of the model."""
        for stack in self.stacks:
            yield from stack.attentions

    def attention(self, looks: str, layer: int, number: int = 0) -> Attention:
        """One attention; layers count from 0.

        Raises:
          ValueError: there is none; says which there are.
        """
        known = {}
        for each in self.attentions():
            known.setdefault(each.looks, []).append(each.layer)
            if (each.looks, each.layer, each.number) == (looks, layer, number):
                return each
        there = "; ".join(f"{name} 1 to {max(layers) + 1}" for name, layers in known.items())
        raise ValueError(
            f"attention {looks!r} has no layer {layer + 1}: "
            + (f"the model has layers {there}" if there else "the model has no attention")
        )

    def tokens_of(self, attention: Attention) -> tuple[list[Token], list[Token]]:
        """The tokens of the queries and of the keys."""
        encoder, decoder = self.stack("encoder"), self.stack("decoder")
        of_source = encoder.tokens if encoder else []
        of_target = decoder.tokens if decoder else []
        match attention.looks:
            case "encoder":
                return of_source, of_source
            case "decoder":
                return of_target, of_target
            case "cross":
                return of_target, of_source
            case "pooling":
                return [Token(-1, "query")], of_source


def plain(value: Any) -> Any:
    """Documents as JSON objects and lists, with arrays left as they are."""
    if (fields := getattr(value, "_asdict", None)) is not None:  # of a NamedTuple
        return {name: plain(each) for name, each in fields().items()}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def as_lists(value: Any) -> Any:
    """`plain`, with arrays as nested lists of numbers, each as short as float32 allows."""
    value = plain(value)
    match value:
        case dict():
            return {name: as_lists(each) for name, each in value.items()}
        case list():
            return [as_lists(each) for each in value]
        case np.ndarray():
            # A float32 converted to float64 would be written with nine meaningless digits.
            return np.vectorize(lambda number: float(str(number)), otypes=[float])(value).tolist()
        case _:
            return value
