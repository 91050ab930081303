"""Documents -> figures in publication size, as PNG, SVG and PDF files.

Axes: T query positions, S key positions, H heads, P positions, D d_model.
"""

import io
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from t2t_jax.explain.document import Attention, Document, Place, Search, Stack, Token
from t2t_jax.explain.look import COLOURS, GREY, fonts
from t2t_jax.explain.words import labels

_DPI = 200
# Inches: the text width of a page, and a cell that still fits a token's name.
_WIDTH = 6.2
_CELL = 0.24
_NAME = 0.07  # a letter
_HEADS_IN_A_ROW = 4


def attention_figure(
    document: Document, looks: str, layer: int, head: int | None, language: str = "en"
) -> Figure:
    """The weights of one head, or of all heads side by side if `head` is None.

    Args:
      layer: counts from 0, like `head`.

    Raises:
      ValueError: the model has no such layer or head.
    """
    attention = _attention(document, looks, layer, head)
    queries, keys = (_pieces(tokens) for tokens in document.tokens_of(attention))
    heads = range(len(attention.weights)) if head is None else [head]
    columns = min(_HEADS_IN_A_ROW, len(heads))
    rows = math.ceil(len(heads) / columns)
    words = labels(language)
    # One head has room for the names of its tokens; several share them at the edge.
    width = max(2.6, min(_WIDTH, _CELL * len(keys) + 1.4)) if len(heads) == 1 else _WIDTH
    names = _NAME * max(len(piece) for piece in (*queries, *keys))
    cell = (width - names - 1.0) / columns / len(keys)
    height = rows * (cell * len(queries) + 0.35) + names + 0.2
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place >= len(heads):
            axis.set_visible(False)
            continue
        _image(axis, attention.weights[heads[place]], most=1.0)
        axis.set_title(f"{words['head']} {heads[place] + 1}", fontsize=9)
        last = place + columns >= len(heads)
        size = _letters(cell)
        _name(axis, queries if place % columns == 0 else [], keys if last else [], size)
    title = f"{document.label}: {words[looks]}, {words['layer']} {layer + 1}"
    figure.suptitle(title, fontsize=10)
    image = axes[0, 0].images[0]
    figure.colorbar(image, ax=axes, shrink=0.7, pad=0.02, label=words["weights"])
    return figure


def embedding_figure(document: Document, language: str = "en") -> Figure:
    """The vectors of the tokens, and a map of them and their neighbours."""
    words = labels(language)
    stack = document.stacks[0]
    tokens = _pieces(stack.tokens)
    figure = Figure(figsize=(_WIDTH, 0.17 * len(tokens) + 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[0.17 * len(tokens) + 0.6, 3.6])
    _signed(above, stack.embedding)
    _name(above, tokens, [], 8.0)
    above.set_title(words["vectors"], fontsize=9)
    for is_of_text, colour in ((False, GREY), (True, COLOURS[0])):
        shown = [place for place in stack.map if place.is_of_text == is_of_text]
        below.scatter(
            [place.x for place in shown], [place.y for place in shown], s=12, color=colour
        )
    for place, right, up in _corners(stack.map, width=75.0, height=50.0):
        below.annotate(
            place.token.piece,
            (place.x, place.y),
            xytext=(3 * right, 2 * up),
            textcoords="offset points",
            ha="left" if right > 0 else "right",
            va="bottom" if up > 0 else "top",
            fontsize=7,
            color=COLOURS[0] if place.is_of_text else GREY,
        )
    below.margins(0.1)
    below.set_title(words["map"], fontsize=9)
    below.set_xticks([])
    below.set_yticks([])
    return figure


def positions_figure(document: Document, language: str = "en") -> Figure:
    """The table of positions, its waves, and similarity or bias by distance.

    Raises:
      ValueError: the model has no positions.
    """
    words = labels(language)
    positions = document.stacks[0].positions
    if positions is None or all(each is None for each in positions[1:]):
        raise ValueError(words["no_positions"])
    panels: list[Callable[[Any], None]] = []
    if (vectors := positions.vectors) is not None:
        panels += [
            lambda axis: _signed(axis, vectors, words["positions_map"]),
            lambda axis: _waves(axis, vectors, words),
        ]
    if positions.likeness is not None:
        name = "likeness_rotary" if positions.kind == "rotary" else "likeness"
        likeness = positions.likeness
        panels += [
            lambda axis: _signed(axis, likeness, words[name], equal=True),
            lambda axis: _by_distance(axis, [likeness], words),
        ]
    if (bias := positions.bias) is not None:
        panels += [
            lambda axis: _signed(axis, bias[0], words["bias"], equal=True),
            lambda axis: _by_distance(axis, list(bias), words),
        ]
    rows = math.ceil(len(panels) / 2)
    figure = Figure(figsize=(_WIDTH, 2.7 * rows), layout="constrained")
    for draw, axis in zip(panels, figure.subplots(rows, 2, squeeze=False).flat, strict=True):
        draw(axis)
    return figure


def residual_figure(document: Document, language: str = "en") -> Figure:
    """How far each sub-layer turns the vector of each token, in degrees.

    Raises:
      ValueError: the model has no sub-layers.
    """
    words = labels(language)
    stacks = [stack for stack in document.stacks if stack.sub_layers]
    values = [
        np.degrees(np.arccos(np.clip([each.cosine for each in stack.sub_layers], -1, 1)))
        for stack in stacks
    ]
    names = [
        [f"{each.layer + 1} {words[each.name]}" for each in stack.sub_layers] for stack in stacks
    ]
    return _rows_by_token(stacks, values, names, words["angle"], words)


def feed_forward_figure(document: Document, language: str = "en") -> Figure:
    """The share of active units of each layer, token by token.

    Raises:
      ValueError: the model has no feed-forward layers.
    """
    words = labels(language)
    stacks, values, names = [], [], []
    for stack in document.stacks:
        if stack.active is not None:
            stacks.append(stack)
            values.append(stack.active)
            names.append([f"{words['layer']} {n + 1}" for n in range(len(stack.active))])
    return _rows_by_token(stacks, values, names, words["active"], words)


def contexts_figure(
    document: Document, looks: str, layer: int, head: int | None, language: str = "en"
) -> Figure:
    """The weights of a head beside the cosines between the vectors after its layer.

    Beside those of a cross-attention, the cosines are of what the encoder hands on. Without a head,
    it is the first.

    Raises:
      ValueError: the model has no such layer or head.
    """
    words = labels(language)
    attention = _attention(document, looks, layer, head)
    is_of_last = looks in ("cross", "pooling")
    stack = document.stack("decoder" if looks == "decoder" else "encoder") or document.stacks[0]
    queries, keys = (_pieces(tokens) for tokens in document.tokens_of(attention))
    tokens = _pieces(stack.tokens)
    cell = (_WIDTH - 2.2) / (len(keys) + len(tokens))
    height = cell * max(len(queries), len(tokens)) + 1.6
    figure = Figure(figsize=(_WIDTH, max(2.2, height)), layout="constrained")
    one, other = figure.subplots(1, 2)
    _image(one, attention.weights[head or 0], most=1.0)
    _name(one, queries, keys, _letters(cell))
    one.set_title(f"{words['weights']}, {words['head']} {(head or 0) + 1}", fontsize=9)
    _signed(other, stack.cosine[-1 if is_of_last else layer + 1], equal=True)
    _name(other, tokens, tokens, _letters(cell))
    name = words["memory_cosine"] if is_of_last else f"{words['state_cosine']} {layer + 1}"
    other.set_title(textwrap.fill(name, 28), fontsize=9)  # narrower than the map of a short text
    return figure


def steps_figure(document: Document, language: str = "en") -> Figure:
    """The likeliest next or masked tokens of every step; the chosen ones are marked.

    Raises:
      ValueError: the model predicts no tokens.
    """
    words = labels(language)
    if not document.steps:
        raise ValueError(words["nothing_there"])
    num_best = len(document.steps[0].best)
    figure = Figure(figsize=(_WIDTH, 0.24 * len(document.steps) + 0.6), layout="constrained")
    axis = figure.subplots()
    probabilities = np.array(
        [[each.probability for each in step.best] for step in document.steps], np.float32
    )
    _image(axis, probabilities, most=1.0, equal=False)
    for row, step in enumerate(document.steps):
        for column, each in enumerate(step.best):
            axis.text(
                column,
                row,
                f"{each.token.piece}  {percent(each.probability)}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if each.probability > 0.65 else "black",
                fontweight="bold" if each.token == step.chosen.token else "normal",
            )
    chosen = [step.chosen.token.piece for step in document.steps]
    _name(axis, [f"{row + 1} {piece}" for row, piece in enumerate(chosen)], [], 8.0)
    axis.set_xticks(range(num_best), [str(place + 1) for place in range(num_best)])
    name = words["next" if document.stack("decoder") else "hidden"]
    axis.set_title(f"{name}: {words['probability']}", fontsize=9)
    return figure


def percent(probability: float) -> str:
    """Without digits, below 1 % with one."""
    found = 100 * probability
    if found < 0.095:
        return "< 0.1 %"
    return f"{found:.0f} %" if found >= 0.95 else f"{found:.1f} %"


def search_figure(document: Document, language: str = "en") -> Figure:
    """The last search as a tree: one column per step, the best hypothesis in colour.

    Raises:
      ValueError: nothing was searched.
    """
    words = labels(language)
    if not document.searches:
        raise ValueError(words["nothing_there"])
    search = document.searches[-1]
    places = _tree_places(search)
    depth = max(x for x, _ in places)
    leaves = max(y for _, y in places) + 1
    step = max(0.62, 0.055 * max(map(len, search.pieces)) + 0.1)  # inches, for letters of 7 points
    size = max(_WIDTH, step * depth + 2.2), max(1.6, 0.3 * leaves + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axis = figure.subplots()
    won = set(search.tree.path(search.tree.best))
    for place, node in enumerate(search.tree.nodes):
        x, y = places[place]
        before = places[node.parent] if node.parent >= 0 else (0, 0)
        colour = COLOURS[0] if place in won else GREY
        axis.plot(
            [before[0], before[0] + 0.3, x],
            [before[1], y, y],
            color=colour,
            linewidth=1.8 if place in won else 0.8,
            zorder=2 if place in won else 1,
        )
        axis.text(
            x - 0.05,
            y - 0.12,
            search.pieces[place],
            fontsize=7,
            ha="right",
            color="black",
            fontweight="bold" if place in won else "normal",
        )
        if node.ending is not None:
            score = "" if node.score is None else f", {words['score']} {node.score:.2f}"
            star = f" ★ {words['best']}" if place == search.tree.best else ""
            axis.text(
                x + 0.1,
                y,
                f"{words[node.ending]}{score}{star}",
                fontsize=6.5,
                va="center",
                color=colour,
            )
    axis.set_xlim(0, depth + 2.0 / step)
    axis.set_ylim(leaves - 0.4, -0.6)
    axis.set_axis_off()
    is_beam = search.name == "beam"
    title = f"{words['beam']} {search.tree.beam_size}" if is_beam else words["greedy"]
    axis.set_title(title, fontsize=9)
    return figure


# Name -> the function that draws it; some also take a layer and a head.
FIGURES: dict[str, Callable[..., Figure]] = {
    "attention": attention_figure,
    "contexts": contexts_figure,
    "embedding": embedding_figure,
    "positions": positions_figure,
    "residual": residual_figure,
    "feed_forward": feed_forward_figure,
    "steps": steps_figure,
    "search": search_figure,
}


def file_of(draw: Callable[[], Figure], kind: str) -> bytes:
    """A figure as a file's bytes in this format; the same figure gives the same bytes."""
    stream = io.BytesIO()
    date = {"png": None, "svg": "Date", "pdf": "CreationDate"}[kind]
    with fonts():
        draw().savefig(
            stream, format=kind, dpi=_DPI, metadata={date: None} if date is not None else None
        )
    return stream.getvalue()


def _attention(document: Document, looks: str, layer: int, head: int | None) -> Attention:
    """The attention shown in a figure.

    Raises:
      ValueError: the model has no such layer or head.
    """
    attention = document.attention(looks, layer)
    num_heads = len(attention.weights)
    if head is not None and not 0 <= head < num_heads:
        raise ValueError(f"head {head + 1}: layer {layer + 1} has heads 1 to {num_heads}")
    return attention


def _corners(places: Sequence[Place], width: float, height: float) -> list[tuple[Place, int, int]]:
    """The corner of each place for its name, so that names rarely overlap each other or places.

    Args:
      width: of the map, in letters of a name, like `height`.
    """
    x, y = np.array([(place.x, place.y) for place in places]).T
    x, y = ((each - each.min()) / (np.ptp(each) or 1) for each in (x, y))
    taken = [
        (left - 0.6, low - 0.6, 1.2, 1.2) for left, low in zip(width * x, height * y, strict=True)
    ]
    found = []
    for place, left, low in zip(places, width * x, height * y, strict=True):
        length = len(place.token.piece) + 1.0
        boxes = {
            (right, up): (left - (right < 0) * length, low - (up < 0) * 2.0, length, 2.0)
            for right in (1, -1)
            for up in (1, -1)
        }
        corner = min(boxes, key=lambda each: sum(_common(boxes[each], box) for box in taken))
        taken.append(boxes[corner])
        found.append((place, *corner))
    return found


def _common(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The common area of two boxes: left, low, width, height."""
    sides = [
        min(one[i] + one[i + 2], other[i] + other[i + 2]) - max(one[i], other[i]) for i in (0, 1)
    ]
    return max(sides[0], 0.0) * max(sides[1], 0.0)


def _pieces(tokens: Sequence[Token]) -> list[str]:
    return [token.piece for token in tokens]


def _letters(cell: float) -> float:
    """The font size in points that fits cells of so many inches."""
    return float(np.clip(cell * 72 * 0.8, 4, 9))


def _image(axis: Any, values: Float[np.ndarray, "T S"], *, most: float, equal: bool = True) -> Any:
    return axis.imshow(values, cmap="Blues", vmin=0, vmax=most, aspect="equal" if equal else "auto")


def _signed(
    axis: Any, values: Float[np.ndarray, "T S"], title: str = "", *, equal: bool = False
) -> None:
    most = float(np.abs(values).max()) or 1.0
    aspect = "equal" if equal else "auto"
    image = axis.imshow(values, cmap="PuOr", vmin=-most, vmax=most, aspect=aspect)
    axis.figure.colorbar(image, ax=axis, shrink=0.6, pad=0.02)
    axis.set_title(textwrap.fill(title, 36), fontsize=9)  # no wider than its half of the page


def _name(axis: Any, rows: Sequence[str], columns: Sequence[str], size: float) -> None:
    axis.set_yticks(range(len(rows)), rows, fontsize=size)
    axis.set_xticks(range(len(columns)), columns, rotation=90, fontsize=size)
    axis.tick_params(length=0)


def _waves(axis: Any, vectors: Float[np.ndarray, "P D"], words: dict[str, str]) -> None:
    width = vectors.shape[1]
    for number, column in enumerate(sorted({0, width // 8, width // 4, width - 2})):
        axis.plot(vectors[:, column], color=COLOURS[number], label=str(column), linewidth=1.3)
    axis.set_xlabel(words["position"], fontsize=8)
    axis.set_title(words["waves"], fontsize=9)
    _legend_below(axis)


def _by_distance(
    axis: Any, squares: Sequence[Float[np.ndarray, "P P"]], words: dict[str, str]
) -> None:
    """The mean over all pairs at each distance, key - query position."""
    size = len(squares[0])
    distances = range(1 - size, size)
    for number, square in enumerate(squares):
        means = [np.diagonal(square, distance).mean() for distance in distances]
        name = f"{words['head']} {number + 1}" if len(squares) > 1 else None
        axis.plot(distances, means, color=COLOURS[number % len(COLOURS)], label=name, linewidth=1.3)
    axis.set_xlabel(words["distance"], fontsize=8)
    axis.set_title(words["by_distance"], fontsize=9)
    if len(squares) > 1:
        _legend_below(axis)


def _legend_below(axis: Any) -> None:
    """Names the lines in a free strip below them."""
    columns = 4
    strip = 0.09 * (math.ceil(len(axis.lines) / columns) + 0.5)  # of the height
    low, high = axis.get_ylim()
    axis.set_ylim(low - (high - low) * strip, high)
    axis.legend(fontsize=6, frameon=False, ncols=columns, loc="lower center")


def _rows_by_token(
    stacks: Sequence[Stack],
    values: Sequence[Float[np.ndarray, "_ _"]],
    names: Sequence[Sequence[str]],
    title: str,
    words: dict[str, str],
) -> Figure:
    """A map for each stack, with its tokens below."""
    if not stacks:
        raise ValueError(words["nothing_there"])
    heights = [0.22 * len(rows) + 1.3 for rows in names]
    figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
    axes = figure.subplots(len(stacks), 1, height_ratios=heights, squeeze=False)[:, 0]
    for stack, of_stack, rows, axis in zip(stacks, values, names, axes, strict=True):
        image = _image(axis, of_stack, most=float(of_stack.max()) or 1.0, equal=False)
        axis.figure.colorbar(image, ax=axis, pad=0.02)
        _name(axis, rows, _pieces(stack.tokens), 7.0)
        axis.set_title(f"{words[stack.name]}: {title}", fontsize=9)
    return figure


def _tree_places(search: Search) -> list[tuple[int, int]]:
    """Step and line of each node: the best comes first, and each leaf has its own line."""
    nodes = search.tree.nodes
    children: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(place)
    won = set(search.tree.path(search.tree.best))
    found: dict[int, tuple[int, int]] = {}
    next_line = 0
    waiting = [(place, 1) for place in reversed(_best_first(children.get(-1, []), won, nodes))]
    first_of: set[int] = set()
    while waiting:
        place, depth = waiting.pop()
        parent = nodes[place].parent
        # The first child continues the line of its parent.
        if parent in found and parent not in first_of:
            line = found[parent][1]
            first_of.add(parent)
        else:
            line, next_line = next_line, next_line + 1
        found[place] = depth, line
        following = _best_first(children.get(place, []), won, nodes)
        waiting += [(child, depth + 1) for child in reversed(following)]
    return [found[place] for place in range(len(nodes))]


def _best_first(places: Sequence[int], won: set[int], nodes: Sequence[Any]) -> list[int]:
    return sorted(places, key=lambda place: (place not in won, -nodes[place].log_prob))
