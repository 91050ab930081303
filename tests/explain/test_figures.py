"""Every figure of every family is drawn, or refused in a sentence."""

import functools

import numpy as np
import pytest

from t2t_jax.cli.explain import _FIGURE_FORMATS, _OF_A_HEAD
from t2t_jax.explain.figures import FIGURES, attention_figure, file_of, percent
from t2t_jax.explain.words import labels
from tests.explain.models import KINDS, document
from tests.model.configs import POSITIONS

# What a family has nothing of.
_NONE = {
    "recurrent": {"positions", "residual", "feed_forward"},
    "decoder_only": {"search"},
    "encoder_only": {"search"},
    "classifier": {"search", "steps"},
}
_BEGINS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_is_drawn_or_refused(kind, name):
    found = document(kind)
    looks = next(found.attentions()).looks
    options = dict(looks=looks, layer=0, head=None) if name in _OF_A_HEAD else {}
    draw = functools.partial(FIGURES[name], found, **options, language="de")
    if name in _NONE.get(kind, ()):
        with pytest.raises(ValueError, match="Diese[ms] Modell"):
            draw()
    else:
        assert file_of(draw, "svg").startswith(b"<?xml")


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_kind_of_positions_is_drawn(positions):
    found = document("encoder_decoder", positions)
    if positions == "none":
        with pytest.raises(ValueError, match="not told any positions"):
            FIGURES["positions"](found)
    else:
        assert FIGURES["positions"](found).axes


@pytest.mark.parametrize("kind", _FIGURE_FORMATS)
def test_the_same_figure_is_the_same_file(kind):
    draw = functools.partial(attention_figure, document(), "encoder", 0, 0)
    one = file_of(draw, kind)
    assert one.startswith(_BEGINS[kind]) and one == file_of(draw, kind)


def test_one_head_has_its_tokens_on_both_axes():
    found = document()
    axis = attention_figure(found, "cross", 1, 1).axes[0]
    names = [
        [label.get_text() for label in each.get_ticklabels()] for each in (axis.yaxis, axis.xaxis)
    ]
    assert names == [[token.piece for token in stack.tokens] for stack in found.stacks[::-1]]
    drawn = axis.images[0].get_array()
    np.testing.assert_array_equal(drawn, found.attention("cross", 1).weights[1])


@pytest.mark.parametrize("name", _OF_A_HEAD)
@pytest.mark.parametrize(
    "layer, head, said", [(2, None, "encoder 1 to 2; decoder 1 to 2"), (0, 5, "has heads 1 to 2")]
)
def test_a_layer_or_head_that_there_is_not_is_told(name, layer, head, said):
    with pytest.raises(ValueError, match=said):
        FIGURES[name](document(), "encoder", layer, head)


def test_titles_say_what_is_drawn():
    def title(figure):
        return figure.axes[0].get_title()

    found = document()
    assert title(FIGURES["search"](found)) == "Beam search, width 3"
    assert title(FIGURES["search"](found._replace(searches=found.searches[:1]))) == "Greedy search"
    assert title(FIGURES["steps"](found)).startswith("Next token")
    assert title(FIGURES["steps"](document("encoder_only"))).startswith("Hidden token")


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_title_of_positions_is_wider_than_its_half_of_the_page(language):
    figure = FIGURES["positions"](document("encoder_decoder", "rotary"), language)
    figure.draw_without_rendering()
    title = figure.axes[0].title
    assert title.get_text().replace("\n", " ") == labels(language)["likeness_rotary"]
    assert 0 <= title.get_window_extent().x0
    assert title.get_window_extent().width < figure.bbox.width / 2


@pytest.mark.parametrize("positions", ["sinusoidal", "alibi"])
def test_no_legend_covers_a_line(positions):
    figure = FIGURES["positions"](document("encoder_decoder", positions))
    figure.draw_without_rendering()
    legends = [(axis, axis.get_legend()) for axis in figure.axes if axis.get_legend()]
    assert legends
    for axis, legend in legends:
        box = legend.get_window_extent()
        lowest = min(axis.transData.transform(line.get_xydata())[:, 1].min() for line in axis.lines)
        assert axis.bbox.y0 <= box.y0 and box.y1 < lowest


def test_a_small_probability_is_not_shown_as_none():
    shown = [percent(share) for share in (1.0, 0.016, 0.0096, 0.0094, 0.00096, 0.0009, 0.0)]
    assert shown == ["100 %", "2 %", "1 %", "0.9 %", "0.1 %", "< 0.1 %", "< 0.1 %"]


def test_pooling_is_beside_what_the_encoder_hands_on():
    found = document("classifier", **{"model.pooling": "query"})
    states = FIGURES["contexts"](found, "pooling", 0, None).axes[1].images[0].get_array()
    np.testing.assert_array_equal(states, found.stack("encoder").cosine[-1])


def test_figures_draw_the_numbers_of_the_document():
    found = document()

    def drawn(name, place=0, **options):
        axes = FIGURES[name](found, **options).axes
        return [axis.images[0].get_array() for axis in axes if axis.images][place]

    weights = found.attention("encoder", 0).weights
    in_contexts = [drawn("contexts", looks="encoder", layer=0, head=head) for head in (0, 1)]
    np.testing.assert_array_equal(in_contexts, weights)
    np.testing.assert_array_equal(drawn("embedding"), found.stacks[0].embedding)
    best = [[each.probability for each in step.best] for step in found.steps]
    np.testing.assert_array_equal(drawn("steps"), np.float32(best))
    for place, stack in enumerate(found.stacks):
        cosines = np.array([each.cosine for each in stack.sub_layers])
        angles = np.array(drawn("residual", place))
        np.testing.assert_allclose(np.cos(np.radians(angles)), cosines, atol=1e-5)
