"""What is drawn, and that it can be told apart without colour."""

import json
import math

import pytest
from matplotlib.legend import Legend

from configs import base
from experiments.report.figures import forest_plot, gallery, learning_curves, lengths, style
from experiments.report.figures.forest_plot import Point, limits_of
from experiments.report.measures import DEV_BLEU, PERPLEXITY, TEST_BLEU
from experiments.report.summary import summaries
from experiments.tables import table2, table3
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, write_sweep


@pytest.fixture
def workdir(tmp_path):
    return write_sweep(tmp_path)


def test_a_curve_is_the_mean_of_all_seeds_and_ends_with_the_first_of_them():
    made = learning_curves.curve("row", [{10: 4.0, 20: 2.0, 30: 1.0}, {10: 6.0, 20: 3.0}, {}])
    assert made.steps == [10, 20]
    assert made.mean == [5.0, 2.5]
    assert (made.low, made.high) == ([4.0, 2.0], [6.0, 3.0])
    assert made.num_seeds == 2


def test_the_axis_of_curves_holds_their_second_halves():
    seed = {10: 90.0, 20: 80.0, 30: 4.0, 40: 2.0, 50: 1.9, 60: 1.5}
    first = learning_curves.curve("a", [seed])
    second = learning_curves.curve("b", [seed, seed | {30: 7.0}, {}])
    assert learning_curves.limits_of([first]) == (1.5, 4.0)
    assert learning_curves.limits_of([first, second]) == (1.5, 7.0)
    # From the last step before one of them comes into sight.
    assert learning_curves.steps_of([first, second]) == (20, 60)
    assert learning_curves.steps_of([learning_curves.curve("c", [{50: 2.0, 60: 1.6}])]) == (0, 60)


@pytest.mark.parametrize("num_evaluations", [2, 3, 5])
def test_few_evaluations_are_all_in_the_frame_with_round_steps(tmp_path, num_evaluations):
    steps = range(550, 550 * num_evaluations + 1, 550)
    for row, worse in (("base", 0.0), ("one_head", 9.0)):
        _write_curve(tmp_path, row, {step: 1 + worse + 3e5 / step**2 for step in steps})
    [panel] = learning_curves.panels(summaries(tmp_path))
    [axis] = learning_curves.draw([panel]).axes
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    for line in axis.lines:
        assert all(left < step < right for step in line.get_xdata())
        assert all(bottom < value < top for value in line.get_ydata())
        assert line.get_marker() not in ("None", "", None)
    ticks = axis.get_xticks()
    apart = ticks[1] - ticks[0]
    assert f"{apart:e}"[0] in "125" and apart >= 1
    assert all(tick % apart == 0 for tick in ticks)


def test_of_one_evaluation_no_curve_is_drawn_which_is_said(tmp_path):
    for row in ("base", "one_head"):
        _write_curve(tmp_path, row, {550: 2.0})
    [table] = summaries(tmp_path)
    assert learning_curves.panels([table]) == []
    sentence = "There are no learning curves: dev was evaluated once in each run"
    assert any(note.startswith(sentence) for note in table.notes)
    # Where one row has a curve, the point of the other stands beside it.
    _write_curve(tmp_path, "base", {300: 3.0, 550: 2.0})
    [table] = summaries(tmp_path)
    [panel] = learning_curves.panels([table])
    assert [curve.steps for curve in panel.curves] == [[300, 550], [550]]
    assert not any(note.startswith(sentence) for note in table.notes)


def _write_curve(workdir, row, values):
    directory = fakes.write_record(workdir, TABLE, CONFIG, row, 0, perplexity=2.0, bleu=90.0)
    lines = [
        json.dumps({"step": step, "split": "dev", "perplexity": value}) + "\n"
        for step, value in values.items()
    ]
    (directory / "metrics.jsonl").write_text("".join(lines))


def test_words_of_a_figure_can_be_read_on_a_page_of_400_pixels(workdir, tmp_path):
    _write_lengths(tmp_path / "lengths", ["base", "A.h=1"])
    found = [*summaries(workdir), *summaries(tmp_path / "lengths")]
    pictures = list(gallery.pictures(found))
    assert len(pictures) == 3
    for picture in pictures:
        pixels_per_point = 376 / (72 * picture.figure.get_figwidth())
        legends = picture.figure.findobj(Legend)
        assert len(legends) > 0
        for legend in legends:
            for text in (*legend.get_texts(), legend.get_title()):
                assert text.get_fontsize() * pixels_per_point > 8


def test_a_caption_says_what_the_axes_and_the_signs_are():
    effects, by_length, tried, curves = (caption for _, caption in gallery.WORDS.values())
    assert all(f"{sign}" in effects for sign in forest_plot.SIGNS.values())
    assert "axes are linear" in effects and "linear axis" in by_length
    assert "on a logarithmic axis" in curves and "on a logarithmic axis" in tried
    assert "logarithmic" not in effects + by_length


def test_each_figure_says_in_its_title_what_it_shows(workdir):
    pictures = list(gallery.pictures(summaries(workdir)))
    titles = [picture.figure.subfigs[0].get_suptitle() for picture in pictures]
    assert titles == [f"{picture.title}\n{TABLE.title}" for picture in pictures]
    assert len({picture.title for picture in pictures}) == len(pictures)


def _write_worse(workdir, **rows):
    """Three seeds of each row, so many BLEU worse than base."""
    for row, worse in rows.items():
        for seed in range(3):
            bleu = 90.0 - worse + (seed + (worse > 0)) % 3
            fakes.write_record(workdir, TABLE, CONFIG, row, seed, perplexity=2.0, bleu=bleu)


def _legend_of_effects(workdir):
    figure = forest_plot.draw(forest_plot.panels(summaries(workdir)))
    [legend] = figure.subfigs[0].legends
    return {text.get_text() for text in legend.get_texts()}, figure


def test_what_the_sentences_of_one_seed_say_is_not_said_of_seeds(tmp_path):
    for row, wrong_every in (("base", 50), ("one_head", 2)):
        directory = fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, perplexity=2.0, bleu=90.0)
        fakes.write_translations(directory, wrong_every=wrong_every)
    words, figure = _legend_of_effects(tmp_path)
    assert "two models differ, over the sentences of one seed" in words
    assert not any("the rows" in each for each in words)
    [point] = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert point.get_fillstyle() == "left"


def test_what_seeds_say_is_said_of_seeds_and_no_sign_is_explained_that_is_not_there(tmp_path):
    _write_worse(tmp_path, base=0.0, one_head=20.0)
    words, _ = _legend_of_effects(tmp_path)
    assert "the rows differ, over seeds" in words
    assert not any("sentences" in each or "paper" in each for each in words)


def test_there_is_a_curve_per_finished_row(workdir):
    [panel] = learning_curves.panels(summaries(workdir))
    assert [curve.label for curve in panel.curves] == ["base", "one_head", "no_positions"]
    assert panel.curves[0].steps == [1, 2, 3]


def test_the_figures_are_images(workdir):
    paths = gallery.write_pngs(summaries(workdir), workdir)
    assert [path.name for path in paths] == ["effects.png", "learning_curves.png"]
    for path in paths:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n") and content.endswith(b"IEND\xaeB`\x82")
        width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
        assert width > 800 and height > 250


def test_the_same_figure_is_the_same_text(workdir):
    first, second = (
        [gallery.data_uri(picture) for picture in gallery.pictures(summaries(workdir))]
        for _ in range(2)
    )
    assert first == second


def test_twenty_rows_have_twenty_looks_without_colour():
    styles = [
        style.line_style(row.name, i)
        for i, row in enumerate(table3.TABLE.rows(base.get_config()).rows)
    ]
    looks = {(str(style["linestyle"]), style.get("marker")) for style in styles}
    assert len(looks) == 20


def test_a_forest_has_every_row_but_the_base_in_the_tables_order(workdir):
    [panel] = forest_plot.panels(summaries(workdir))
    assert [name for name, _ in panel.rows] == ["one_head", "no_positions"]
    assert [each.measure for each in panel.forests] == [TEST_BLEU, PERPLEXITY]
    one_head, no_positions = panel.forests[0].points
    assert one_head.difference == pytest.approx(-2.5)
    assert one_head.low < -3.0 < one_head.high and not one_head.is_significant
    # One seed: a point without an interval, of perplexity in nats too, to base at that seed.
    assert (no_positions.low, no_positions.high) == (None, None)
    assert panel.forests[1].points[1].difference == pytest.approx(math.log(4.0 / 1.2))


def test_a_filled_point_is_a_significant_one(tmp_path):
    _write_worse(tmp_path, base=0.0, one_head=20.0, one_layer=0.3)
    panels = forest_plot.panels(summaries(tmp_path))
    assert [point.is_significant for point in panels[0].forests[0].points] == [True, False]
    figure = forest_plot.draw(panels)
    faces = [
        line.get_markerfacecolor() for line in figure.axes[0].lines if line.get_marker() == "o"
    ]
    assert len(faces) == 2 and faces[0] != "white" == faces[1]


def test_the_papers_differences_stand_beside_ours_at_its_base(tmp_path):
    paper = base.get_config()
    paper.data.directory = "."
    for row, perplexity in (("base", 5.0), ("A.h=1", 5.2)):
        scores = {"dev": {"perplexity": perplexity, "bleu": 25.0}, "test": {"bleu": 27.0}}
        fakes.write_record(
            tmp_path, table3.TABLE, paper, row, 0, perplexity=5.0, bleu=1.0, scores=scores
        )
    [panel] = forest_plot.panels(summaries(tmp_path))
    # Those of dev, which the paper reports: 24.9 - 25.8 BLEU, ln(5.29 / 4.92) nats.
    assert [each.measure for each in panel.forests] == [DEV_BLEU, PERPLEXITY]
    differences = [each.points[0].paper for each in panel.forests]
    assert differences == pytest.approx([-0.9, 0.07251], abs=1e-4)
    figure = forest_plot.draw([panel])
    [legend] = figure.subfigs[0].legends
    assert legend.get_texts()[-1].get_text() == "the paper's difference"


def test_the_papers_differences_are_of_the_split_it_has(tmp_path):
    """Table 2 reports BLEU of test alone, though runs at the paper's base have that of dev too."""
    paper = base.get_config()
    paper.data.directory = "."
    for row in ("base", "big"):
        scores = {"dev": {"perplexity": 5.0, "bleu": 25.0}, "test": {"bleu": 27.0}}
        fakes.write_record(
            tmp_path, table2.TABLE, paper, row, 0, perplexity=5.0, bleu=1.0, scores=scores
        )
    [panel] = forest_plot.panels(summaries(tmp_path))
    assert panel.forests[0].measure == TEST_BLEU
    assert panel.forests[0].points[0].paper == pytest.approx(28.4 - 27.3)


def _point(difference, low=None, high=None):
    return Point("row", "", difference, low, high, False)


def test_the_axis_of_a_forest_holds_zero_and_all_intervals_but_those_of_far_rows():
    low, high = limits_of([_point(1.0, 0.5, 1.5), _point(2.0, 1.0, 3.0)])
    assert low == pytest.approx(-0.24) and high == pytest.approx(3.24)
    usual = [_point(1.0, 0.5, 1.5), _point(-1.0, -1.5, -0.5)]
    assert limits_of([*usual, _point(-50.0, -51.0, -49.0)]) == limits_of(usual)
    assert limits_of([_point(0.0)]) == (-1.0, 1.0)
    with_paper = _point(1.0)._replace(paper=-1.0)
    assert limits_of([with_paper]) == pytest.approx((-1.16, 1.16))


def test_a_row_beyond_the_axis_is_written_as_a_number(tmp_path):
    for row, bleu in (("base", 90.0), ("one_head", 89.5), ("one_layer", 91), ("no_positions", 9.0)):
        fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, perplexity=2.0, bleu=bleu)
    figure = forest_plot.draw(forest_plot.panels(summaries(tmp_path)))
    assert [text.get_text() for text in figure.axes[0].texts] == ["\N{MINUS SIGN}81.0"]


def test_a_row_on_the_edge_of_the_axis_is_not_cut_in_half(tmp_path):
    far = forest_plot._FAR
    differences = {
        "base": 0,
        "A.h=1": 1,
        "A.h=2": 1,
        "A.h=8": 1,
        "C.N=1": -far,
        "C.N=3": -far - 0.5,
    }
    for row, difference in differences.items():
        bleu = 90.0 + difference
        fakes.write_record(tmp_path, table3.TABLE, CONFIG, row, 0, perplexity=2.0, bleu=bleu)
    axis = forest_plot.draw(forest_plot.panels(summaries(tmp_path))).axes[0]
    low, _ = axis.get_xlim()
    assert low < -far - 0.5 < 0.98 * low  # on the axis, but for half of its marker
    assert [text.get_text() for text in axis.texts] == [f"\N{MINUS SIGN}{far + 0.5:.1f}"]


def _write_lengths(workdir, rows, splits=("test",), seeds=1):
    for place, row in enumerate(rows):
        for seed in range(seeds):
            directory = fakes.write_record(
                workdir, table3.TABLE, CONFIG, row, seed, perplexity=2.0, bleu=90.0
            )
            for split in splits:
                fakes.write_translations(directory, wrong_every=2 + place, split=split)


def test_lengths_are_those_with_enough_sentences(tmp_path):
    _write_lengths(tmp_path, ["base", "A.h=1"], seeds=2)
    [panel] = lengths.panels(summaries(tmp_path))
    # Sources of 6, 8, 12 and 16 words, 25 of each.
    assert panel.sentences == {
        (6, 10): (50, "test"),
        (11, 15): (25, "test"),
        (16, 20): (25, "test"),
    }
    base, one_head = panel.lines
    assert (base.label, base.num_seeds) == ("base", 2)
    mean, low, high = base.values[6, 10]
    assert low == mean == high < one_head.values[6, 10][0]


def test_a_bin_is_of_the_split_with_more_sentences_in_it(tmp_path):
    scores = {
        "test": {"bleu_by_length": [_entry(6, 10, 30, 90.0), _entry(16, 20, 25, 80.0)]},
        "long": {"bleu_by_length": [_entry(16, 20, 26, 70.0), _entry(31, None, 19, 1.0)]},
    }
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0, scores=scores)
    [panel] = lengths.panels(summaries(tmp_path))
    assert panel.sentences == {(6, 10): (30, "test"), (16, 20): (26, "long")}
    [line] = panel.lines
    assert line.values == {(6, 10): (90.0, 90.0, 90.0), (16, 20): (70.0, 70.0, 70.0)}
    # Scores of other sentences do not go on from those before.
    figure = lengths.draw([panel])
    [axis] = figure.axes
    assert [list(drawn.get_ydata()) for drawn in axis.lines[:2]] == [[90.0], [70.0]]
    [legend] = figure.subfigs[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["base"]


def test_a_row_with_few_sentences_alone_is_left_out(tmp_path):
    entries = {"base": [(1, 5, 30), (6, 10, 30)], "one_head": [(11, 15, 3)]}
    for row, its in entries.items():
        scores = {"test": {"bleu_by_length": [_entry(*entry, 50.0) for entry in its]}}
        fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, perplexity=1, bleu=1, scores=scores)
    panels = lengths.panels(summaries(tmp_path))
    assert [line.label for line in panels[0].lines] == ["base"]
    lengths.draw(panels)


def _entry(low, high, sentences, bleu):
    return {"words": [low, high], "sentences": sentences, "bleu": bleu}


def test_of_many_rows_the_base_and_the_extremes_are_drawn(tmp_path):
    rows = [row.name for row in table3.TABLE.rows(CONFIG).rows][:10]
    _write_lengths(tmp_path, rows)
    [panel] = lengths.panels(summaries(tmp_path))
    labels = [line.label for line in panel.lines]
    assert labels == [*rows[:4], *rows[7:]] and panel.left_out == rows[4:7]
    lengths.draw([panel])


def test_runs_without_translations_have_no_figure_of_lengths(workdir):
    assert lengths.panels(summaries(workdir)) == []


def test_a_curve_is_of_dev_and_of_finished_runs(tmp_path):
    for seed in range(2):
        run_ = fakes.write_record(tmp_path, TABLE, CONFIG, "base", seed, perplexity=2.0, bleu=1.0)
        lines = [
            json.dumps({"step": step, "split": split, "perplexity": perplexity}) + "\n"
            for step, split, perplexity in ((1, "train", 9.0), (1, "dev", 5.0), (2, "dev", 4.0))
        ]
        (run_ / "metrics.jsonl").write_text("".join(lines))
    (run_ / "record.json").unlink()
    [panel] = learning_curves.panels(summaries(tmp_path))
    assert panel.curves[0].mean == [5.0, 4.0] and panel.curves[0].num_seeds == 1


def test_the_arrow_of_an_axis_points_to_what_is_better():
    assert forest_plot._label(PERPLEXITY).endswith("\n← better")
    assert forest_plot._label(TEST_BLEU).endswith("\nbetter →")
