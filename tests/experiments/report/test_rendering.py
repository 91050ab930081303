"""Markdown, CSV, LaTeX and HTML of the same small sweep."""

import csv
import io
import json
import math
import re
import shutil
from html.parser import HTMLParser

import pytest

from configs import base
from experiments.report import report
from experiments.report.figures import forest_plot, gallery, learning_curves
from experiments.report.measures import COSTS, MEASURES, Mean
from experiments.report.rendering.columns import columns, signed
from experiments.report.rendering.latex import latex_escaped
from experiments.report.summary import summaries
from experiments.run import record
from experiments.run.outcomes import read_outcomes
from experiments.tables import table2, table3
from tests.experiments import fakes
from tests.experiments.sweeps import (
    CONFIG,
    TABLE,
    write_a_difference_that_other_rows_take_back,
    write_sweep,
)


@pytest.fixture
def workdir(tmp_path):
    return write_sweep(tmp_path)


@pytest.fixture
def far_apart(tmp_path):
    """A row that differs for certain, and one that does not, with probes."""
    for place, (row, worse) in enumerate((("base", 0), ("one_head", 20), ("one_layer", 0.3))):
        for seed in range(3):
            noise = (seed + place) % 3
            scores = {
                "dev": {"perplexity": 2.0 + worse / 50 + noise / 100},
                "test": {"bleu": 90.0 - worse + noise, "probes": {"order": 0.9 + noise / 100}},
            }
            fakes.write_record(
                tmp_path, TABLE, CONFIG, row, seed, perplexity=2.0, bleu=1.0, scores=scores
            )
    return tmp_path


def _markdown_rows(text):
    """By name of the row, its cells by title."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    titles, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {row[0]: dict(zip(titles, row, strict=True)) for row in rows}


def _csv_rows(workdir):
    return {row["row"]: row for row in csv.DictReader(io.StringIO(report.text(workdir, "csv")))}


def test_markdown_rounds_and_one_seed_has_no_interval(workdir):
    text = report.text(workdir, "markdown")
    rows = _markdown_rows(text)
    assert rows["one_head"]["n"] == "2"
    assert rows["one_head"]["PPL (dev)"] == "1.600 ± 1.271"
    # Over the two seeds that base has too.
    assert rows["one_head"]["ΔPPL"] == "+0.350"
    assert rows["one_head"]["BLEU (test)"] == "89.0 ± 12.7"
    assert rows["one_head"]["ΔBLEU"] == "-2.5"
    assert rows["one_head"]["against base"] == "no difference seen at 2 seeds against 3 of base"
    assert rows["no_positions"]["PPL (dev)"] == "4.000"
    assert rows["base"]["ΔBLEU"] == ""
    assert "Direction: en-de." in text


@pytest.mark.parametrize(("lowest", "digits"), [(1.2, 3), (1.6, 2)])
def test_perplexities_near_1_have_a_digit_more(tmp_path, lowest, digits):
    for row, perplexity in (("base", lowest), ("one_head", 9.0)):
        for seed in range(3):
            value = perplexity + seed / 1000
            fakes.write_record(tmp_path, TABLE, CONFIG, row, seed, perplexity=value, bleu=90.0)
    text = report.text(tmp_path, "markdown")
    found = _markdown_rows(text)["one_head"]
    assert found["PPL (dev)"] == f"{9.001:.{digits}f} ± {0.002484:.{digits}f}"
    assert found["ΔPPL"] == f"{9.0 - lowest:+.{digits}f} *"
    assert f"BLEU signature: {fakes.SIGNATURE}." in text
    assert "not the standard deviation" in text
    assert "    python -m experiments.sweep quickstart --base=configs/tiny.py --rows=" in text


def test_every_line_of_a_markdown_table_is_as_long_as_the_others(far_apart):
    lines = [line for line in report.text(far_apart, "markdown").splitlines() if line[:1] == "|"]
    assert len(lines) == 5 and len({len(line) for line in lines}) == 1


def test_a_mark_stands_where_the_difference_is_significant(far_apart):
    rows = _markdown_rows(report.text(far_apart, "markdown"))
    assert rows["one_head"]["ΔBLEU"] == "-20.0 *" and rows["one_head"]["ΔPPL"] == "+0.40 *"
    assert rows["one_layer"]["ΔBLEU"] == "-0.3"
    assert rows["one_layer"]["order (%)"] == "91.0 ± 2.5"
    assert "\\rlap{$^*$}" in report.text(far_apart, "latex")
    assert report.text(far_apart, "html").count('<b class="mark">*</b>') == 2
    numbers = _csv_rows(far_apart)
    assert float(numbers["one_head"]["test_bleu_p"]) < 0.05
    assert float(numbers["one_layer"]["test_bleu_p"]) > 0.05


def test_a_column_without_anything_in_it_is_left_out(workdir, far_apart):
    assert "order (%)" in report.text(far_apart, "markdown")
    fakes.write_record(workdir / "else", TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=2.0)
    text = report.text(workdir / "else", "markdown")
    for title in ("order", "ΔPPL", "ΔBLEU", "against base", "paper", "BLEU (dev)", "BLEU (long)"):
        assert title not in text.splitlines()[2]
    header = report.text(workdir / "else", "csv").splitlines()[0]
    assert "test_bleu_mean" in header and "dev_bleu_mean" not in header


def test_csv_reads_back_with_every_number_in_full(workdir):
    rows = _csv_rows(workdir)
    assert list(rows) == ["base", "one_head", "no_positions"]
    one_head = rows["one_head"]
    assert float(one_head["dev_perplexity_mean"]) == pytest.approx(1.6)
    assert float(one_head["test_bleu_half_width_95"]) == pytest.approx(12.7062, rel=1e-5)
    assert one_head["test_bleu_test"] == "seeds"
    difference, low, high = (
        float(one_head[f"test_bleu_{x}"]) for x in ("difference", "low", "high")
    )
    assert difference == pytest.approx((low + high) / 2) == pytest.approx(-2.5)
    # Tested by its logarithm, shown in PPL: the ratio to the base of the same seeds.
    ends = [float(one_head[f"dev_perplexity_{end}"]) for end in ("low", "high")]
    base_of_both = math.sqrt(1.2 * 1.3)
    ratio = math.prod(1 + end / base_of_both for end in ends)
    assert ratio == pytest.approx(1.5 * 1.7 / (1.2 * 1.3))
    assert rows["no_positions"]["test_bleu_half_width_95"] == ""
    assert rows["no_positions"]["test_bleu_p"] == ""
    assert rows["base"]["paper_bleu"] == ""
    assert all(None not in row and None not in row.values() for row in rows.values())


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
    assert r"one\_head" in text and r"$\pm$" in text and "$-2.5$" in text
    assert re.search(r"(?<!\\)_", re.sub(r"\$.*?\$", "", text)) is None


def test_latex_prints_special_characters_literally():
    assert latex_escaped("a_b & 5% {x} \\") == r"a\_b \& 5\% \{x\} \textbackslash{}"


def test_latex_has_the_groups_and_columns_of_the_paper(tmp_path):
    for row in ("base", "A.h=1", "A.h=2", "B.d_k=16", "C.N=3", "E.learned"):
        fakes.write_record(tmp_path, table3.TABLE, CONFIG, row, 0, perplexity=5.0, bleu=25.0)
    body = report.text(tmp_path, "latex").split(r"\toprule")[1].split(r"\bottomrule")[0]
    groups = [block.strip().splitlines() for block in body.split(r"\midrule")[1:]]
    assert [[line.split(" &")[0] for line in group] for group in groups] == [
        ["base"],
        ["A.h=1", "A.h=2"],
        [r"B.d\_k=16"],
        ["C.N=3"],
        ["E.learned"],
    ]
    header, *lines = [line.split(" & ") for line in body.splitlines() if "&" in line]
    assert header[1:6] == ["$N$", "$h$", "$d_k$", "$d_v$", "changes"]
    by_row = {line[0]: line[1:6] for line in lines}
    assert by_row["base"] == ["2", "4", "32", "32", ""]
    assert by_row["A.h=1"] == ["", "1", "128", "128", ""]
    assert by_row["C.N=3"] == ["3", "", "", "", ""]
    assert by_row["E.learned"] == ["", "", "", "", "positions=learned"]


def test_every_measure_has_a_column(workdir):
    [table] = summaries(workdir)
    found = {measure.name: Mean(1.0, None) for measure in MEASURES}
    table = table._replace(rows=[row._replace(means=found) for row in table.rows])
    assert {measure.title for measure in MEASURES} <= {each.title for each in columns(table)}


def test_every_cost_is_a_number_of_a_whole_record(tmp_path):
    facts = {"operations": {"without_padding": 3e12, "with_padding": 4e12}}
    directory = fakes.write_record(
        tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=50.0, **facts
    )
    values = record.read_record(directory)
    assert all(cost.value(values) > 0 for cost in COSTS)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_record_with_text_where_a_measure_reads_a_number_is_refused(workdir, measure):
    directory = read_outcomes(workdir).runs[0].directory
    values = record.read_json(directory / record.RECORD_FILE)
    place = values["scores"].setdefault(measure.split, {})
    for key in measure.keys[:-1]:
        place = place.setdefault(key, {})
    place[measure.keys[-1]] = "many"
    record.write_json(directory / record.RECORD_FILE, values)
    with pytest.raises(ValueError, match="='many' must be a number"):
        record.read_record(directory)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0049, "0.00"), (-0.0049, "0.00"), (0.0051, "+0.01"), (-3.0, "-3.00")]
)
def test_a_difference_has_a_sign_unless_it_is_rounded_to_zero(value, text):
    assert signed(value, 2) == text


def test_the_papers_scores_and_differences_stand_beside_ours_at_its_base_alone(tmp_path, workdir):
    assert "paper" not in report.text(workdir, "markdown")
    paper = base.get_config()
    paper.data.directory = "."
    directory = tmp_path / "paper"
    for row, bleu in (("base", 25.0), ("A.h=1", 23.0), ("C.N=2", 20.0)):
        scores = {"dev": {"perplexity": 5.0, "bleu": bleu}}
        fakes.write_record(
            directory, table3.TABLE, paper, row, 0, perplexity=5.0, bleu=1.0, scores=scores
        )
    rows = _markdown_rows(report.text(directory, "markdown"))
    assert rows["A.h=1"]["paper PPL"] == "5.29" and rows["A.h=1"]["paper ΔPPL"] == "+0.37"
    assert rows["A.h=1"]["ΔBLEU (dev)"] == "-2.0"
    assert rows["A.h=1"]["paper BLEU"] == "24.9" and rows["A.h=1"]["paper ΔBLEU"] == "-0.9"
    assert rows["base"]["paper BLEU"] == "25.8" and rows["base"]["paper ΔBLEU"] == ""
    assert rows["C.N=2"]["paper params"] == "36" and rows["A.h=1"]["paper params"] == ""
    assert [row["paper_perplexity"] for row in _csv_rows(directory).values()] == [
        "4.92",
        "5.29",
        "6.11",
    ]
    shutil.rmtree(directory / "table3" / "base")
    assert _markdown_rows(report.text(directory, "markdown"))["A.h=1"]["paper PPL"] == "5.29"


class _Page(HTMLParser):
    """What a page consists of; a tag that is not closed shows."""

    _VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.cells = [], [], [], [[]]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset")]
        if tag not in self._VOID:
            self.open.append(tag)
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.cells[-1][-1] += data


def _page(text):
    page = _Page()
    page.feed(text)
    assert page.open == []
    return page


def test_the_page_needs_no_other_file_and_says_what_markdown_says(workdir):
    text = report.text(workdir, "html")
    page = _page(text)
    assert "http" not in re.sub(r"data:[^\"]*", "", text) and "@import" not in text
    assert page.links and all(link.startswith("data:image/svg+xml") for link in page.links)
    assert page.tags.count("figure") == page.tags.count("img") == 2
    cells = {row[0]: row for row in page.cells if row}
    assert len({len(row) for row in cells.values()}) == 1
    assert "\N{MINUS SIGN}2.5" in cells["one_head"] and "1.600 ± 1.271" in cells["one_head"]
    for sentence in ("not the standard deviation", "Direction: en-de.", "Missing", "not asked for"):
        assert sentence in text
    assert "python -m experiments.report W" in re.sub("</?span>", "", text)


def test_a_command_breaks_at_spaces_alone(workdir):
    text = report.text(workdir, "html")
    [commands] = re.findall("<pre><code>(.*?)</code></pre>", text, re.DOTALL)
    words = commands.replace("\n", " ").split(" ")
    assert "<span>--base=configs/tiny.py</span>" in words
    assert all(re.fullmatch("<span>[^<>]+</span>", word) for word in words)
    [rule] = re.findall("pre span {(.*?)}", text)
    assert "white-space: nowrap" in rule and "overflow-wrap" not in text.partition("pre {")[2][:200]


def test_a_table_too_wide_for_a_page_says_that_it_scrolls(workdir):
    sentence = (
        '<p class="wide hint">Where the table is wider than the page it scrolls sideways.</p>'
    )
    assert sentence not in report.text(workdir, "html")
    for path in workdir.rglob("record.json"):
        values = record.read_record(path.parent)
        for name in ("test2016", "test2017"):
            values["scores"][name] = values["scores"]["test"] | {"name": name}
        record.write_json(path, values)
    assert sentence in report.text(workdir, "html")


def test_a_narrow_page_shows_the_scores_first_and_says_that_its_table_scrolls(workdir):
    text = report.text(workdir, "html")
    titles = re.findall(r'<th scope="col"(?: class="([^"]*)")?>(.*?)</th>', text)
    narrow = [title for names, title in titles if "wide" not in names]
    assert narrow[:5] == ["row", "PPL (dev)", "ΔPPL", "BLEU (test)", "ΔBLEU"]
    wide = [title for names, title in titles if "narrow" not in names]
    assert wide[:5] == ["row", "changes", "n", "params (10<sup>6</sup>)", "PPL (dev)"]
    assert sorted(narrow) == sorted(wide)
    assert '<p class="narrow hint">The table scrolls sideways' in text


def test_the_page_changes_to_dark_and_for_paper(workdir):
    text = report.text(workdir, "html")
    assert "prefers-color-scheme: dark" in text and "@media print" in text


def test_several_tables_are_one_page_with_its_contents(workdir):
    fakes.write_record(workdir, table3.TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0)
    text = report.text(workdir, "html")
    links = [link for link in _page(text).links if link.startswith("#")]
    assert len(links) == 2
    assert all(f'id="{link[1:]}"' in text for link in links)


def test_words_of_a_run_are_no_tags(tmp_path):
    hardware = "<script>alert(1)</script> & more"
    fakes.write_record(
        tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0, hardware=hardware
    )
    assert "script" not in _page(report.text(tmp_path, "html")).tags


def test_the_papers_bleu_of_a_split_stands_beside_ours_of_that_split_alone(tmp_path):
    for table in (table2.TABLE, table3.TABLE):
        fakes.write_record(
            tmp_path / table.name, table, base.get_config(), "base", 0, perplexity=5.0, bleu=25.0
        )
    texts = [report.text(tmp_path / name, "markdown") for name in ("table2", "table3")]
    assert _markdown_rows(texts[0])["base"]["paper BLEU (test)"] == "27.3"
    assert "paper BLEU (test)" not in texts[1]
    assert "The paper's numbers are of newstest2014" in texts[0]
    numbers = _csv_rows(tmp_path / "table2")["base"]
    assert (numbers["paper_bleu"], numbers["paper_test_bleu"]) == ("", "27.3")


def test_csv_has_the_interval_and_the_p_value_that_hold_for_all_rows(tmp_path):
    write_a_difference_that_other_rows_take_back(tmp_path)
    row = _csv_rows(tmp_path)["one_head"]
    low, difference, high, p_value = (
        float(row[f"test_bleu_{name}"]) for name in ("low", "difference", "high", "p")
    )
    assert low < difference < 0 < high and p_value > 0.05


def test_speed_and_cost_are_in_their_columns(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0)
    # 2 million tokens in 60 s of training, and 4 s of scoring.
    shown = _markdown_rows(report.text(tmp_path, "markdown"))["base"]
    names = ("seconds", "tokens (10^6)", "tokens/s")
    assert [shown[name] for name in names] == ["64", "2.00", "33333"]
    row = _csv_rows(tmp_path)["base"]
    assert (float(row["seconds"]), float(row["target_tokens_millions"])) == (64, 2)
    assert float(row["target_tokens_per_second"]) == pytest.approx(2e6 / 60)


def test_probes_that_differ_are_marked(tmp_path):
    for place, (row, share) in enumerate((("base", 0.9), ("one_head", 0.5))):
        for seed in range(3):
            scores = {"test": {"probes": {"order": share + (seed + place) % 3 / 100}}}
            fakes.write_record(
                tmp_path, TABLE, CONFIG, row, seed, perplexity=1, bleu=1, scores=scores
            )
    rows = _markdown_rows(report.text(tmp_path, "markdown"))
    assert rows["one_head"]["order (%)"] == "51.0 ± 2.5 *"


@pytest.fixture
def diverged(far_apart):
    for row, seed, perplexity in (("one_head", 1, math.nan), ("one_layer", 0, math.inf)):
        path = far_apart / "quickstart" / row / f"seed-{seed}" / "record.json"
        values = json.loads(path.read_text())
        values["scores"]["dev"]["perplexity"] = perplexity
        path.write_text(json.dumps(values))
    return far_apart


@pytest.mark.parametrize("format_name", report.FORMATS)
def test_every_format_says_that_a_row_diverged_and_none_prints_nan(diverged, format_name):
    text = report.text(diverged, format_name)
    words = re.sub(r"data:image[^\"]*", "", text)
    assert not re.search(r"\b(nan|inf)\b", words)
    if format_name == "csv":
        rows = _csv_rows(diverged)
        assert [rows[name]["num_diverged"] for name in rows] == ["0", "1", "1"]
        assert rows["one_head"]["dev_perplexity_mean"] == rows["one_head"]["test_bleu_p"] == ""
    else:
        assert words.count("1 of 3 seeds diverged") == 2 + 2  # the rows, and the note


def test_a_row_that_diverged_is_in_no_figure(diverged):
    for path in gallery.write_pngs(summaries(diverged), diverged):
        assert path.stat().st_size > 0
    assert forest_plot.panels(summaries(diverged)) == []
    [panel] = learning_curves.panels(summaries(diverged))
    assert [curve.label for curve in panel.curves] == ["base"]
