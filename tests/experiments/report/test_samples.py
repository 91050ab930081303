"""Test sentences with each row's translations, from a corpus whose text may be shown."""

import json
import re

import pytest
from markdown_it import MarkdownIt

from configs import tiny
from experiments.report import report
from experiments.report.samples import SAMPLES
from experiments.report.summary import summaries
from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora.corpus import read_pairs
from t2t_jax.evaluation.bleu import bleu_of, sentence_statistics
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE

PAIRS = list(read_pairs(DataConfig(**CONFIG.data.to_dict()), "test"))


def write_run(workdir, row, lines, seed=0, pairs=PAIRS, config=CONFIG):
    """A finished run that has translated the test sentences so."""
    sources, references = zip(*pairs, strict=True)
    statistics = sentence_statistics(lines, references)
    bleu = bleu_of(statistics.sum(0))
    directory = fakes.write_record(workdir, TABLE, config, row, seed, perplexity=2.0, bleu=bleu)
    for folder in ("scores", "translations"):
        (directory / folder).mkdir()
    counts = {"bleu_signature": fakes.SIGNATURE, "statistics": statistics.tolist()}
    counts["source_words"] = [len(source.split()) for source in sources]
    (directory / "scores" / "test.sentences.json").write_text(json.dumps(counts))
    text = "".join(line + "\n" for line in lines)
    (directory / "translations" / "test.txt").write_text(text, "utf-8")
    return directory


def references(**changes):
    """The references, some lines of them changed: by number, from 0."""
    found = [reference for _, reference in PAIRS]
    for place, text in changes.items():
        found[int(place.removeprefix("line"))] = text
    return found


def samples(workdir, number=None):
    [table] = summaries(workdir, number)
    return table.samples


def test_the_first_sentence_and_those_on_which_the_rows_differ_most(tmp_path):
    longest = max(range(1, 500), key=lambda place: len(PAIRS[place][1]))
    half = PAIRS[longest][1].rpartition(" ")[0]
    write_run(tmp_path, "base", references())
    write_run(tmp_path, "one_head", references(line700="x", **{f"line{longest}": half}))
    found = samples(tmp_path, 2)
    assert [sample.line for sample in found] == [1, 701]
    assert (found[1].source, found[1].reference) == PAIRS[700]
    assert found[1].translations == {"base": PAIRS[700][1], "one_head": "x"}
    assert [sample.line for sample in samples(tmp_path, 5)] == [1, longest + 1, 701]
    assert [sample.line for sample in samples(tmp_path, 1)] == [1]
    assert samples(tmp_path, 0) == []
    assert samples(tmp_path) == samples(tmp_path, 5)


def test_of_each_row_the_first_seed_that_is_finished(tmp_path):
    for seed in (2, 1):
        write_run(tmp_path, "base", references(line0=f"seed {seed}"), seed)
    write_run(tmp_path, "one_head", references(line0="seed 0"))
    [first, *_] = samples(tmp_path)
    assert first.translations == {"base": "seed 1", "one_head": "seed 0"}


def damaged_by(name, directory):
    translations = directory / "translations" / "test.txt"
    match name:
        case "no translations":
            translations.unlink()
        case "no counts":
            (directory / "scores" / "test.sentences.json").unlink()
        case "a line is missing":
            translations.write_text(translations.read_text("utf-8").partition("\n")[2], "utf-8")
        case "not UTF-8":
            translations.write_bytes(translations.read_bytes().replace(b"i", b"\xff"))
        case "scored again":
            record = directory / "record.json"
            record.write_text(re.sub('"bleu": [^,]*', '"bleu": 1.5', record.read_text()))
        case "a link that leads out":
            elsewhere = directory.parents[3] / "elsewhere.txt"
            translations.rename(elsewhere)
            translations.symlink_to(elsewhere)
        case "other sentences":
            counts = directory / "scores" / "test.sentences.json"
            counts.write_text(
                re.sub(r'"source_words": \[\d+', '"source_words": [99', counts.read_text())
            )


@pytest.mark.parametrize(
    "name",
    [
        *("no translations", "no counts", "a line is missing", "not UTF-8", "scored again"),
        *("a link that leads out", "other sentences"),
    ],
)
def test_a_row_whose_translations_are_not_those_of_its_record_is_left_out(name, tmp_path):
    write_run(tmp_path / "w", "base", references())
    damaged_by(name, write_run(tmp_path / "w", "one_head", references(line0="x")))
    [first] = samples(tmp_path / "w")
    assert first.translations == {"base": PAIRS[0][1]}


def test_where_nothing_is_kept_nothing_is_said(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=1.0)
    assert samples(tmp_path, 5) == []
    assert "Test sentences" not in report.text(tmp_path, "markdown")
    assert "<details>" not in report.text(tmp_path, "html")


@pytest.mark.parametrize("data", [None, "embedded", {"source": "embedded"}])
def test_a_config_that_names_no_corpus_has_none(tmp_path, data):
    directory = write_run(tmp_path, "base", references())
    for file in ("run.json", "record.json"):
        values = json.loads((directory / file).read_text())
        values["config"]["data"] = data
        (directory / file).write_text(json.dumps(values))
    assert samples(tmp_path) == samples(tmp_path, 5) == []


def test_a_run_of_before_a_key_has_samples_too(tmp_path):
    directory = write_run(tmp_path, "base", references())
    for file in ("run.json", "record.json"):
        values = json.loads((directory / file).read_text())
        del values["config"]["data"]["lowercase"]
        (directory / file).write_text(json.dumps(values))
    assert samples(tmp_path)


def test_text_of_another_corpus_is_shown_only_if_asked_for(tmp_path):
    config = tiny.get_config()
    pairs = [("one secret", "ein Geheimnis"), ("two", "zwei")]
    for stem in ("train", "dev", "test"):
        for place, language in enumerate(("en", "de")):
            text = "".join(pair[place] + "\n" for pair in pairs)
            (tmp_path / f"{stem}.{language}").write_text(text)
    config.data.update(source="text", directory=str(tmp_path))
    write_run(tmp_path / "w", "base", ["ein Rätsel", "zwei"], pairs=pairs, config=config)
    assert samples(tmp_path / "w") == []
    for path in report.write_report(tmp_path / "w")[:4]:
        assert "secret" not in path.read_text("utf-8") and "Rätsel" not in path.read_text("utf-8")
    [first] = samples(tmp_path / "w", 3)
    assert first[1:] == ("one secret", "ein Geheimnis", {"base": "ein Rätsel"})
    report.write_report(tmp_path / "w", 3)
    assert "one secret" in (tmp_path / "w" / "report.html").read_text("utf-8")
    (tmp_path / "test.en").unlink()
    assert samples(tmp_path / "w", 3) == []


def test_whatever_a_model_has_said_is_shown_and_not_obeyed(tmp_path):
    said = '<script>alert(1)</script> | "x" & [a](b) `c` *d* ![e](http://f) \x1b[2J\u202e # g'
    write_run(tmp_path, "base", references(line0=said))
    shown = said.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
    page = report.text(tmp_path, "html")
    assert page.count("<details>") == page.count("</details>") == 1
    assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt; | &quot;x&quot;" in page
    parsed = MarkdownIt("commonmark").enable("table").parse(report.text(tmp_path, "markdown"))
    cells = [
        "".join(child.content for child in after.children or ())
        for token, after in zip(parsed, parsed[1:], strict=False)
        if token.type in ("td_open", "th_open")
    ]
    place = cells.index("line 1")
    assert cells[place + 2 : place + 8] == [
        "source",
        PAIRS[0][0],
        "reference",
        PAIRS[0][1],
        "base",
        shown,
    ]
    assert SAMPLES in report.text(tmp_path, "markdown")
