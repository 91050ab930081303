"""A page per row, linked from the report, which links to no pages but ours."""

import re
from unittest import mock

import pytest

from experiments.report import report
from experiments.report.pages import write_pages
from experiments.report.run_files import PAGE
from experiments.report.samples import WHY_NONE
from t2t_jax.explain.page import page
from t2t_jax.runs import workdir as workdir_of_run
from tests.experiments.report.test_samples import references, write_run
from tests.explain.models import document, trained


def _links(workdir):
    return re.findall(
        r'<th scope="row"><a href="([^"]*)">([^<]*)</a>', report.text(workdir, "html")
    )


def _two_rows(workdir):
    write_run(workdir, "base", references())
    write_run(workdir, "base", references(), seed=1)
    return write_run(workdir, "one_head", references(line3="x"))


@pytest.mark.slow
def test_the_first_finished_seed_of_each_row_has_a_page(tmp_path):
    _two_rows(tmp_path)
    assert _links(tmp_path) == []
    told = []
    with mock.patch.object(workdir_of_run, "load_trained", lambda _: trained()):
        paths = write_pages(report.read(tmp_path), told.append)
    names = [path.relative_to(tmp_path).as_posix() for path in paths]
    assert names == [f"quickstart/{row}/seed-0/{PAGE}" for row in ("base", "one_head")]
    assert told == []
    assert _links(tmp_path) == list(zip(names, ("base", "one_head"), strict=True))
    sample = report.read(tmp_path)[0].samples[0].source
    assert all(sample in path.read_text("utf-8") for path in paths)


def test_a_row_without_a_model_is_told_and_stops_no_other(tmp_path):
    _two_rows(tmp_path)
    told = []
    assert write_pages(report.read(tmp_path), told.append) == []
    assert [line.split(" has no page: ")[0] for line in told] == ["base", "one_head"]


def test_a_table_without_sentences_to_show_has_no_pages_and_is_told(tmp_path):
    write_run(tmp_path, "base", references())
    (tmp_path / "quickstart" / "base" / "seed-0" / "translations" / "test.txt").unlink()
    told = []
    assert write_pages(report.read(tmp_path), told.append) == []
    [sentence] = told
    assert sentence.startswith(f"quickstart has no pages: {WHY_NONE}; unless that is the embedded")


@pytest.mark.slow
def test_a_page_in_which_another_script_could_run_is_not_linked(tmp_path):
    directory = _two_rows(tmp_path)
    ours = page([[document()]])
    (directory / PAGE).write_text(ours, "utf-8")
    assert [name for _, name in _links(tmp_path)] == ["one_head"]
    for text in ("<script>alert(1)</script>", ours.replace("script-src 'sha256-", "script-src 'x")):
        (directory / PAGE).write_text(text, "utf-8")
        assert _links(tmp_path) == []
    elsewhere = tmp_path / "elsewhere.html"
    elsewhere.write_text(ours, "utf-8")
    (directory / PAGE).unlink()
    (directory / PAGE).symlink_to(elsewhere)
    assert _links(tmp_path) == []
