"""Captured arrays -> an encoder or a decoder, for a document.

Axes: T query positions, S key positions, H heads, D d_model, K d_k, V d_v, P positions of a table.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from t2t_jax.data.vocabulary.vocabulary import Vocabulary
from t2t_jax.explain.document import (
    Attention,
    Looks,
    Neighbour,
    Place,
    PositionsOfModel,
    Stack,
    SubLayer,
    Token,
)
from t2t_jax.explain.heard import Heard, row_of
from t2t_jax.model.attention import score_divisor
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.interface import Model
from t2t_jax.model.positions import (
    EncodedPositions,
    concatenated_sinusoids,
    rotate,
    sinusoids,
    tensor2tensor_sinusoids,
)

_NEIGHBOURS = 6
# Positions to compare with each other if a sentence has fewer.
_POSITIONS = 32


class Loaded(NamedTuple):
    """A model and its vocabulary."""

    model: Model
    params: PyTree
    vocabulary: Vocabulary

    @property
    def config(self) -> TransformerConfig:
        """The config of the model."""
        return self.model.config

    def tokens(self, ids: Sequence[int]) -> list[Token]:
        """The ids with their pieces."""
        return [Token(int(each), self.vocabulary.piece(int(each))) for each in ids]


def stack_of(
    loaded: Loaded, name: Literal["encoder", "decoder"], ids: Sequence[int], heard: Heard
) -> Stack:
    """The stack `name` of a model after reading `ids`."""
    is_recurrent = loaded.config.family == "recurrent"
    own_table = name == "encoder" and "source_embedding.__call__" in heard
    table = "source_embedding" if own_table else "embedding"
    embedding = heard.array(f"{table}.__call__", 0 if name == "encoder" else -1)
    embedded = embedding if is_recurrent else heard.array(f"{name}.embedded")
    prefix = f"{name}_layers_" if is_recurrent else f"{name}.layers_"
    depths = {
        "encoder": loaded.config.num_encoder_layers,
        "decoder": loaded.config.num_decoder_layers,
    }
    layers = [f"{prefix}{number}" for number in range(depths[name])]
    states = [embedded, *(heard.array(f"{layer}.output") for layer in layers)]
    if loaded.config.norm == "pre" and not is_recurrent:
        states.append(heard.array(f"{name}.output"))  # after the last norm: what is handed on
    attentions, sub_layers, active = [], [], []
    if is_recurrent and name == "decoder" and "attention.weights" in heard:
        attentions = [_source_attention(heard, states[-1])]
    positions = None
    if not is_recurrent:
        positions = _positions(loaded, name, len(ids))
        encoded = heard.value(f"{name}.positions.__call__")
        for number, layer in enumerate(layers):
            attentions += _attentions(loaded.config, heard, layer, number, name, encoded)
            sub_layers += _sub_layers(loaded.config, heard, layer, number, states[number])
            if loaded.config.feed_forward:
                inner = heard.array(f"{layer}.feed_forward.inner.__call__")
                active.append((inner > 0).mean(-1, dtype=np.float32))
    weights = np.asarray(loaded.params[table]["table"], np.float32)
    tokens = loaded.tokens(ids)
    neighbours = _neighbours(loaded, weights, ids)
    return Stack(
        name=name,
        tokens=tokens,
        embedding=embedding,
        neighbours=neighbours,
        map=_map(weights, tokens, neighbours),
        positions=positions,
        embedded=embedded,
        attentions=attentions,
        sub_layers=sub_layers,
        active=np.stack(active) if active else None,
        cosine=np.stack([cosines(each) for each in states]),
    )


def pooling_attention(config: TransformerConfig, heard: Heard) -> Attention:
    """The attention of a classifier's learned query."""
    return _attention(config, heard, "pooling.attention", "pooling", 0)


def cosines(x: Float[np.ndarray, "*heads T D"]) -> Float[np.ndarray, "*heads T T"]:
    """The cosine between any two rows; 0 if one of them is 0."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    unit = x / np.where(length == 0, 1, length)
    return unit @ np.swapaxes(unit, -1, -2)


def layouts(d_model: int, num_positions: int) -> dict[str, Float[np.ndarray, "P D"]]:
    """The three kinds of sinusoids; the first is the paper's."""
    if d_model % 2 or d_model < 4:
        return {}
    positions = jnp.arange(num_positions)
    return {
        name: np.asarray(make(positions, d_model))
        for name, make in (
            ("sinusoidal", sinusoids),
            ("sinusoidal_concatenated", concatenated_sinusoids),
            ("sinusoidal_tensor2tensor", tensor2tensor_sinusoids),
        )
    }


def _attentions(
    config: TransformerConfig,
    heard: Heard,
    layer: str,
    number: int,
    looks: Looks,
    positions: EncodedPositions,
) -> list[Attention]:
    """The attentions of one layer, in order."""
    _, looked_at = heard.value(f"{layer}.__call__")
    found = [
        _attention(
            config,
            heard,
            f"{layer}.self_attentions_{place}",
            looks,
            number,
            place,
            key=each.key,
            positions=positions,
        )
        for place, each in enumerate(looked_at)
    ]
    if f"{layer}.cross_attention.weights" in heard:
        found.append(_attention(config, heard, f"{layer}.cross_attention", "cross", number))
    return found


def _attention(
    config: TransformerConfig,
    heard: Heard,
    path: str,
    looks: Looks,
    layer: int,
    place: int = 0,
    *,
    key: Float[np.ndarray, "H S K"] | None = None,
    positions: EncodedPositions | None = None,
) -> Attention:
    query = np.swapaxes(heard.array(f"{path}.query.__call__"), 0, 1)
    positions = positions or EncodedPositions()
    if positions.angles is not None:
        query = row_of(rotate(jnp.asarray(query)[None], jnp.asarray(positions.angles)[None]))
    if key is None:
        key = np.swapaxes(heard.array(f"{path}.key.__call__"), 0, 1)
    value = np.swapaxes(heard.array(f"{path}.value.__call__"), 0, 1)
    weights = heard.array(f"{path}.weights")
    divisor = score_divisor(config)
    return Attention(
        looks=looks,
        layer=layer,
        number=place,
        weights=weights,
        mask=np.broadcast_to(heard.array(f"{path}.mask"), weights.shape[1:]),
        scores=_scores(query, key, divisor),
        divisor=divisor,
        query=query,
        key=key,
        bias=None if positions.bias is None else np.asarray(positions.bias),
        context_cosine=cosines(weights @ value),
    )


def _scores(
    query: Float[np.ndarray, "H T K"], key: Float[np.ndarray, "H S K"], divisor: float
) -> Float[np.ndarray, "H T S"]:
    return query @ np.swapaxes(key, -1, -2) / np.float32(divisor)


def _source_attention(heard: Heard, states: Float[np.ndarray, "T D"]) -> Attention:
    """The attention of the recurrent decoder, which has one head."""
    key = heard.array("attention.key.__call__")
    weights = heard.array("attention.weights")
    divisor = states.shape[-1] ** 0.5
    return Attention(
        "cross",
        layer=0,
        number=0,
        weights=weights,
        mask=np.ones(weights.shape[1:], np.float32),  # one sentence has no padding
        scores=_scores(states[None], key[None], divisor),
        divisor=divisor,
        query=states[None],
        key=key[None],
    )


def _sub_layers(
    config: TransformerConfig,
    heard: Heard,
    layer: str,
    number: int,
    x: Float[np.ndarray, "T D"],
) -> list[SubLayer]:
    """The sub-layers of a layer with input `x`, in order."""
    found = []
    names = [
        *(f"self_attentions_{place}" for place in range(config.num_self_attentions)),
        "cross_attention",
        "feed_forward",
    ]
    for name in names:
        method = "__call__" if name == "feed_forward" else "attend"
        if f"{layer}.{name}.{method}" not in heard:
            continue
        update = heard.array(f"{layer}.{name}.{method}")
        after = heard.array(
            f"{layer}.{name.replace('self_attentions', 'self_attention_residuals')}"
            f"{'' if name.startswith('self') else '_residual'}.__call__"
        )
        length, out = np.linalg.norm(x, axis=-1), np.linalg.norm(after, axis=-1)
        found.append(
            SubLayer(
                name="self_attention" if name.startswith("self") else name,
                layer=number,
                length=length,
                update=np.linalg.norm(update, axis=-1),
                cosine=(x * after).sum(-1) / np.maximum(length * out, np.float32(1e-12)),
            )
        )
        x = after
    return found


def _positions(loaded: Loaded, name: str, length: int) -> PositionsOfModel:
    """The positions of one stack, possibly more than the sentence has."""
    config = loaded.config
    number = max(length, _POSITIONS)
    if config.longest_sequence is not None:
        number = min(number, config.longest_sequence)
    places = jnp.arange(number)[None]

    def encoded(model: Any) -> EncodedPositions:
        return getattr(model, name).positions(places, places)

    found: Any = loaded.model
    found = found.apply({"params": loaded.params}, method=encoded)
    vectors = None if found.vectors is None else row_of(found.vectors)
    bias = None if found.bias is None else row_of(found.bias)
    likeness = None if vectors is None else cosines(vectors)
    if found.angles is not None:
        angles = row_of(found.angles)
        likeness = np.cos(angles[:, None] - angles[None]).mean(-1)
    return PositionsOfModel(config.positions, vectors, likeness, bias)


def _neighbours(
    loaded: Loaded, table: Float[np.ndarray, "vocab D"], ids: Sequence[int]
) -> list[list[Neighbour]]:
    """The rows nearest to each token's by cosine, without the token itself."""
    rows = table[: loaded.vocabulary.size]
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit = rows / np.where(length == 0, 1, length)
    of_id = {}
    for token_id in set(ids):
        cosine = unit @ unit[token_id]
        cosine[token_id] = -np.inf
        best = np.argsort(-cosine)[: min(_NEIGHBOURS, len(rows) - 1)].tolist()
        of_id[token_id] = [
            Neighbour(token, float(cosine[token.id])) for token in loaded.tokens(best)
        ]
    return [of_id[token_id] for token_id in ids]


def _map(
    table: Float[np.ndarray, "vocab D"],
    tokens: Sequence[Token],
    neighbours: Sequence[Sequence[Neighbour]],
) -> list[Place]:
    """Tokens and neighbours along the two directions in which they differ most."""
    of_text = dict.fromkeys(tokens)
    others = dict.fromkeys(each.token for near in neighbours for each in near[:3])
    shown = [*of_text, *(token for token in others if token not in of_text)]
    x = table[[token.id for token in shown]]
    x = x - x.mean(0)
    _, _, directions = np.linalg.svd(x, full_matrices=False)
    flat = np.zeros((len(shown), 2), np.float32)
    flat[:, : min(2, len(directions))] = x @ directions[:2].T
    return [
        Place(token, float(x), float(y), token in of_text)
        for token, (x, y) in zip(shown, flat.tolist(), strict=True)
    ]
