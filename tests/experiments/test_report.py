"""Tables and figures from records: numbers recomputed by hand."""

import csv
import io
import math
import re

import pytest

from configs import base, tiny
from experiments import figures, quickstart, record, report, table3
from experiments.summary import Measure, measure, summaries
from tests.experiments import fakes

CONFIG = tiny.get_config()
TABLE = quickstart.TABLE


@pytest.fixture
def workdir(tmp_path):
    """Three seeds of the base, two of one head, one of no positions."""
    scores = {
        "no_positions": [(4.0, 60.0)],
        "base": [(1.2, 92.0), (1.3, 91.0), (1.4, 93.0)],
        "one_head": [(1.5, 90.0), (1.7, 88.0)],
    }
    for row, seeds in scores.items():
        for seed, (perplexity, bleu) in enumerate(seeds):
            fakes.write_record(tmp_path, TABLE, CONFIG, row, seed, perplexity=perplexity, bleu=bleu)
    return tmp_path


def test_means_spreads_and_differences_are_those_made_by_hand(workdir):
    [table] = summaries(workdir)
    rows = {row.name: row for row in table.rows}
    assert list(rows) == ["base", "one_head", "no_positions"]

    # ((1.2 - 1.3)^2 + 0 + (1.4 - 1.3)^2) / (3 - 1) = 0.01; (1 + 0 + 1) / 2 = 1
    assert rows["base"].perplexity == pytest.approx((1.3, 0.1))
    assert rows["base"].bleu == pytest.approx((92.0, 1.0))
    assert rows["base"].bleu_difference is None
    # (0.1^2 + 0.1^2) / 1 = 0.02; (1 + 1) / 1 = 2
    assert rows["one_head"].perplexity == pytest.approx((1.6, math.sqrt(0.02)))
    assert rows["one_head"].bleu == pytest.approx((89.0, math.sqrt(2.0)))
    assert rows["one_head"].perplexity_difference == pytest.approx(0.3)
    assert rows["one_head"].bleu_difference == pytest.approx(-3.0)
    assert rows["no_positions"].perplexity == Measure(4.0, None)
    assert rows["no_positions"].num_seeds == 1
    assert rows["base"].params == 1.25
    assert rows["base"].seconds == 64.0
    assert rows["base"].target_tokens == 2.0


def test_the_printed_table_rounds_them_and_one_seed_has_no_spread(workdir):
    text = report.text(workdir, "markdown")
    lines = {}
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            lines[cells[0]] = cells
    header = lines["row"]
    one_head = dict(zip(header, lines["one_head"], strict=True))
    assert one_head["n"] == "2"
    assert one_head["PPL (dev)"] == "1.60 ± 0.14"
    assert one_head["ΔPPL"] == "+0.30"
    assert one_head["BLEU (test)"] == "89.0 ± 1.4"
    assert one_head["ΔBLEU"] == "-3.0"
    no_positions = dict(zip(header, lines["no_positions"], strict=True))
    assert no_positions["PPL (dev)"] == "4.00"
    assert "paper PPL" not in header
    assert "Direction: en-de." in text
    assert f"BLEU signature: {fakes.SIGNATURE}." in text


def test_csv_reads_back_with_every_number_in_full(workdir):
    rows = list(csv.DictReader(io.StringIO(report.text(workdir, "csv"))))
    assert [row["row"] for row in rows] == ["base", "one_head", "no_positions"]
    assert float(rows[1]["dev_perplexity_mean"]) == pytest.approx(1.6)
    assert float(rows[1]["test_bleu_spread"]) == pytest.approx(math.sqrt(2.0))
    assert rows[2]["test_bleu_spread"] == ""
    assert rows[0]["paper_bleu"] == ""
    assert all(None not in row and None not in row.values() for row in rows)


def test_latex_has_as_many_cells_in_every_line_and_balanced_braces(workdir):
    text = report.text(workdir, "latex")
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", text)
    assert columns is not None
    assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {len(columns[1])}
    assert len(lines) == 4
    without_escapes = text.replace(r"\{", "").replace(r"\}", "")
    assert without_escapes.count("{") == without_escapes.count("}")
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert r"one\_head" in text and r"$\pm$" in text
    assert re.search(r"(?<!\\)_", text.replace("$10^6$", "")) is None


def test_latex_prints_special_characters_literally():
    assert report.latex_escaped("a_b & 5% {x} \\") == r"a\_b \& 5\% \{x\} \textbackslash{}"


def test_the_papers_scores_stand_beside_ours_at_its_base_alone(tmp_path):
    paper = base.get_config()
    paper.data.directory = "."
    for row in ("base", "A.h=1"):
        fakes.write_record(tmp_path, table3.TABLE, paper, row, 0, perplexity=5.0, bleu=25.0)
    text = report.text(tmp_path, "markdown")
    assert "paper PPL" in text and "paper BLEU" in text
    assert "5.29" in text and "24.9" in text
    rows = list(csv.DictReader(io.StringIO(report.text(tmp_path, "csv"))))
    assert [row["paper_perplexity"] for row in rows] == ["4.92", "5.29"]


def test_departures_from_the_papers_recipe_are_said(tmp_path):
    shorter = base.get_config()
    shorter.training.steps = 1234
    fakes.write_record(tmp_path, table3.TABLE, shorter, "base", 0, perplexity=5.0, bleu=25.0)
    assert "but steps=1234 (paper 100000)." in report.text(tmp_path, "markdown")


def test_failed_missing_and_unasked_rows_are_listed(workdir):
    rows = TABLE.rows(CONFIG)
    for row, failure in (("one_layer", "ValueError: boom"), ("learned_positions", None)):
        run = record.make_run(TABLE, rows.named(row), CONFIG, 0)
        record.write_run(workdir / run.directory, run)
        if failure:
            record.write_json(workdir / run.directory / "failure.json", {"error": failure})
    text = report.text(workdir, "markdown")
    assert "one_layer seed 0 failed: ValueError: boom" in text
    assert "learned_positions seed 0 not finished" in text
    assert report.write_report(workdir)


@pytest.mark.parametrize(
    ("fact", "value", "sentence"),
    [
        ("vocabulary_fingerprint", "v1", "Warning: mixed vocabularies, perplexities are not"),
        ("direction", "de-en", "Warning: mixed direction, scores are not comparable"),
        ("commit", "fff-dirty", "Mixed commits: 0123abc (base, one_head); fff-dirty"),
        (
            "scores",
            {"dev": {"perplexity": 2.0}, "test": {"bleu": 3.0, "bleu_signature": "other"}},
            "Warning: mixed BLEU signatures, BLEU is not comparable",
        ),
    ],
)
def test_rows_that_cannot_be_compared_are_said(workdir, fact, value, sentence):
    fakes.write_record(
        workdir, TABLE, CONFIG, "no_positions", 0, perplexity=4.0, bleu=60.0, **{fact: value}
    )
    assert sentence in report.text(workdir, "markdown")


def test_a_sweep_with_nothing_finished_still_reports(tmp_path):
    run = record.make_run(TABLE, TABLE.rows(CONFIG).named("base"), CONFIG, 0)
    record.write_run(tmp_path / run.directory, run)
    for format_name in report.FORMATS:
        assert "base" in report.text(tmp_path, format_name)
    assert not (tmp_path / "learning_curves.png").exists()
    assert len(report.write_report(tmp_path)) == 3


def test_a_record_without_bleu_leaves_the_cell_empty(tmp_path):
    scores = {"dev": {"perplexity": 2.0}}
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=0.0, scores=scores)
    [table] = summaries(tmp_path)
    assert table.rows[0].bleu is None
    assert report.write_report(tmp_path)


def test_rows_this_code_no_longer_knows_come_last(workdir):
    stranger = table3.TABLE._replace(name="quickstart")
    fakes.write_record(workdir, stranger, CONFIG, "A.h=2", 0, perplexity=1.0, bleu=1.0)
    [table] = summaries(workdir)
    assert [row.name for row in table.rows][-1] == "A.h=2"


def test_the_same_table_at_two_bases_is_two_tables(tmp_path):
    other = tiny.get_config()
    other.training.steps = 5
    fakes.write_record(tmp_path / "x", TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0)
    fakes.write_record(tmp_path / "y", TABLE, other, "base", 0, perplexity=1.0, bleu=1.0)
    assert [table.title[-3:] for table in summaries(tmp_path)] == ["[x]", "[y]"]


def test_no_runs_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="no runs below"):
        report.text(tmp_path / "absent", "csv")


def test_a_spread_divides_by_one_less_than_the_seeds():
    assert measure([]) is None
    assert measure([3.0]) == (3.0, None)
    assert measure([1.0, 3.0]) == pytest.approx((2.0, math.sqrt(2.0)))


def test_a_curve_averages_the_seeds_that_reached_a_step():
    made = figures.curve("row", [{10: 4.0, 20: 2.0}, {10: 6.0}, {}])
    assert made.steps == [10, 20]
    assert made.mean == [5.0, 2.0]
    assert (made.low, made.high) == ([4.0, 2.0], [6.0, 2.0])
    assert made.num_seeds == 2


def test_the_figure_is_an_image_with_a_curve_per_finished_row(workdir):
    [panel] = figures.panels(summaries(workdir))
    assert [curve.label for curve in panel.curves] == ["base", "one_head", "no_positions"]
    assert panel.curves[0].steps == [1, 2, 3]

    paths = report.write_report(workdir)
    assert [path.name for path in paths] == [
        "report.md",
        "report.csv",
        "report.tex",
        "learning_curves.png",
    ]
    content = paths[-1].read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n") and content.endswith(b"IEND\xaeB`\x82")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert width > 800 and height > 400


def test_twenty_rows_have_twenty_looks_without_colour():
    styles = [
        figures._style(row.name, i)
        for i, row in enumerate(table3.TABLE.rows(base.get_config()).rows)
    ]
    looks = {(str(style["linestyle"]), style.get("marker")) for style in styles}
    assert len(looks) == 20
