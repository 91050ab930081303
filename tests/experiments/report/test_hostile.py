"""Whatever somebody else's run contains, every format shows it and none obeys it."""

import csv
import functools
import io
import json
import re
import shlex
import shutil
import tempfile
import warnings
from html.parser import HTMLParser
from pathlib import Path

import hypothesis
import pytest
import rich.console
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from experiments.report import report
from experiments.report.figures import gallery
from experiments.report.rendering.latex import _SPECIAL as LATEX
from experiments.report.summary import summaries
from experiments.run.plain_text import plain_text
from experiments.sweep import status
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE

_WORDS = (
    *("-\\input{/etc/passwd}", "$-\\input{x}$", "a$\\frac{$b", "\\", "%", "^^M", "--", "&", "~"),
    *("<script>alert(1)</script>", '" onload="x', "-->", "]]>", "&lt;", "&#60;", "'", '"'),
    *("=1+1", "+1", "-1", "@SUM(A1)", "=HYPERLINK(1)", ",", ";", "\t=1"),
    *(
        "|",
        "\\|",
        "`",
        "``",
        "*a*",
        "_a_",
        "__a",
        "**",
        "~~a~~",
        "[a](b)",
        "![a](http://b)",
        "<http://a>",
    ),
    *(
        "\n",
        "\r\n",
        "\n\n# a",
        "\n---\n",
        "\x00",
        "\x1b[2J",
        "\x1b]0;a\x07",
        "\x9b31m",
        "\u202e",
        "\ud800",
    ),
    *(
        "; touch a",
        "$(touch a)",
        "&& a",
        "[red]",
        "[/]",
        ":smile:",
        " ",
        "1. a",
        "# a",
        "- a",
        "> a",
    ),
)
HOSTILE = st.lists(st.one_of(st.sampled_from(_WORDS), st.text(max_size=5)), min_size=1, max_size=6)
HOSTILE = HOSTILE.map("".join).filter(str.strip)

# Cells, links and code would be found wherever a text has broken out of its place.
_settings = functools.partial(hypothesis.settings, deadline=None)


def _write(workdir: Path, text: str) -> None:
    """Runs of two bases; all that may be any text is `text`."""
    for name, base_name in (("a", ""), ("b", text)):
        for row in ("base", "one_head"):
            directory = fakes.write_record(
                workdir / name, TABLE, CONFIG, row, 0, perplexity=2.0, bleu=50.0
            )
            for file in ("run.json", "record.json"):
                values = json.loads((directory / file).read_text())
                values["base"]["data"]["name"] = base_name
                values["config"]["data"]["source"] = "tfds"  # by which the name is read
                values["hardware"] = text
                if row == "one_head":
                    values["changes"] = {"model.num_heads": text, "model.positions": text}
                    values["config"]["model"]["num_heads"] = text
                (directory / file).write_text(json.dumps(values))
    failed = workdir / "a" / TABLE.name / "one_layer" / "seed-0"
    shutil.copytree(workdir / "a" / TABLE.name / "base" / "seed-0", failed)
    values = json.loads((failed / "run.json").read_text()) | {"row": "one_layer"}
    (failed / "run.json").write_text(json.dumps(values))
    (failed / "record.json").unlink()
    (failed / "failure.json").write_text(json.dumps({"error": text}))


@functools.lru_cache(maxsize=2)
def _found(text: str):
    with tempfile.TemporaryDirectory() as directory:
        _write(Path(directory), text)
        return summaries(Path(directory))


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _check_csv(text):
    lines = list(csv.reader(io.StringIO(report.FORMATS["csv"](_found(text)))))
    assert len(lines) == 6 and len({len(line) for line in lines}) == 1
    header, *rows = lines
    for row in rows:
        for name, cell in zip(header, row, strict=True):
            if name in ("table", "base", "row", "changes"):
                assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
            elif cell and not name.endswith("_test"):
                float(cell)
    shown = dict(zip(header, rows[1], strict=True))
    assert shown["changes"] == f"num_heads={plain_text(text)} positions={plain_text(text)}"


def test_a_cell_that_would_be_a_formula_is_text_and_a_number_is_one():
    from experiments.report.rendering.comma_separated import cell

    assert [cell(each) for each in ("=1", "+1", "-1", "@a", "a=1")] == [
        *("'=1", "'+1", "'-1", "'@a", "a=1"),
    ]
    assert cell(-1.2) == -1.2


_NO_TEXT = {"html_block", "html_inline", "link_open", "image", "code_inline", "fence", "em_open"}
_NO_TEXT |= {"strong_open", "s_open", "blockquote_open", "ordered_list_open", "hr", "hardbreak"}


def _check_markdown(text):
    shown = report.FORMATS["markdown"](_found(text))
    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(shown)
    everything = [child for token in parsed for child in (token, *(token.children or ()))]
    assert not {token.type for token in everything} & _NO_TEXT
    kinds = [token.type for token in parsed]
    assert kinds.count("heading_open") == kinds.count("table_open") == 2
    assert kinds.count("bullet_list_open") == 2 * 3 and kinds.count("code_block") == 2

    def words(token):
        return "".join(child.content for child in token.children or ())

    cells = [words(parsed[i + 1]) for i, kind in enumerate(kinds) if kind in ("td_open", "th_open")]
    rows = kinds.count("tr_open")
    assert rows == 2 * 2 + 3 and len(cells) == len(cells) // rows * rows
    plain = plain_text(text)
    assert _squeezed(f"num_heads={plain} positions={plain}") in map(_squeezed, cells)
    texts = [_squeezed(words(token)) for token in parsed if token.type == "inline"]
    assert _squeezed(f"Hardware: {plain}.") in texts
    assert _squeezed(f"one_layer seed 0 failed: {plain}") in texts
    code = [token.content for token in parsed if token.type == "code_block"]
    assert f"--base.data.name={plain}" in shlex.split(code[1])


def _latex_words(escaped: str) -> str:
    """The text that LaTeX shows.

    Raises:
      AssertionError: a character in it would be obeyed.
    """
    meanings = {sign: character for character, sign in LATEX.items()}
    found = ""
    while escaped:
        sign = next((sign for sign in meanings if escaped.startswith(sign)), escaped[0])
        assert sign in meanings or sign not in "\\{}$&#^_~%"
        found += meanings.get(sign, sign)
        escaped = escaped[len(sign) :]
    return found


def _check_latex(text):
    shown = report.FORMATS["latex"](_found(text))
    plain = plain_text(text)
    lines = [line for line in shown.splitlines() if line.startswith("one\\_head &")]
    assert len(lines) == 2
    for line in lines:
        cells = re.split(r"(?<!\\)&", line.removesuffix(r" \\"))
        assert len(cells) == len(re.findall(r"(?<!\\)&", shown.splitlines()[7])) + 1
        # A number stands in dollars, for its minus.
        shown_cells = [re.sub(r"^\$([-+.\d]+)\$$", r"\1", cell.strip()) for cell in cells[1:3]]
        assert sum(_squeezed(_latex_words(cell)) == _squeezed(plain) for cell in shown_cells) >= 1
    for line in shown.splitlines():
        if line.startswith("Hardware: "):
            assert _latex_words(line.removesuffix(r"\par")) == f"Hardware: {plain}."


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.words = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, [name for name, _ in attrs]))

    def handle_data(self, data):
        self.words.append(data)


def _page(text: str) -> _Page:
    page = _Page()
    page.feed(_without_figures(_found(text)))
    return page


def _without_figures(found) -> str:
    drawn, gallery.pictures = gallery.pictures, lambda _: iter(())
    try:
        return report.FORMATS["html"](found)
    finally:
        gallery.pictures = drawn


def _check_page(text):
    page = _page(text + "x")
    # Each word of a command has a span of its own.
    word = ("span", [])
    innocent = _page("innocent").tags
    assert [tag for tag in page.tags if tag != word] == [tag for tag in innocent if tag != word]
    plain = plain_text(text + "x")
    assert f"num_heads={plain} positions={plain}" in page.words
    assert f"Hardware: {plain}." in page.words


@pytest.mark.slow
@hypothesis.given(HOSTILE)
@hypothesis.example("+1")
@_settings(max_examples=40)
def test_every_format_has_its_cells_shows_the_text_and_obeys_none_of_it(text):
    _check_csv(text)
    _check_markdown(text)
    _check_latex(text)
    _check_page(text)


@hypothesis.given(HOSTILE)
@hypothesis.example("a$\\frac{$b")
@_settings(max_examples=6)
def test_figures_show_any_title(text):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")
        for picture in gallery.pictures(_found(text + "x")):
            gallery.data_uri(picture)
            # A long one is wrapped.
            titles = [_squeezed(part.get_suptitle()) for part in picture.figure.subfigs]
            assert any(_squeezed(plain_text(text)) in title for title in titles)


@hypothesis.given(HOSTILE)
@_settings(max_examples=15)
def test_a_terminal_obeys_nothing_of_a_status(text):
    with tempfile.TemporaryDirectory() as directory:
        _write(Path(directory), text)
        stream = io.StringIO()
        console = rich.console.Console(file=stream, force_terminal=True, width=160)
        console.print(status.table(status.standing(Path(directory))))
    shown = re.sub(r"\x1b\[[\d;]*m", "", stream.getvalue())  # the table's own bold titles
    assert all(each.isprintable() or each == "\n" for each in shown)
    cut = _squeezed(plain_text(text))
    assert cut[:30] in _squeezed(shown)


@hypothesis.given(st.text())
def test_plain_text_is_one_printable_line_and_leaves_words_alone(text):
    plain = plain_text(text)
    assert plain.isprintable() and (plain == text) == text.isprintable()
