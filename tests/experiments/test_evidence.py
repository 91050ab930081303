"""What is kept of a sweep, and what another one must come to."""

import pytest

from experiments import evidence
from tests.experiments import fakes, sweeps


@pytest.fixture
def kept(tmp_path):
    evidence.keep(sweeps.write_sweep(tmp_path / "sweep"), tmp_path / "kept")
    return tmp_path / "kept"


def test_records_and_curves_are_kept_and_reported(tmp_path, kept):
    [run] = kept.glob("*/no_positions/seed-0")
    assert {path.name for path in run.iterdir()} == {"run.json", "record.json", "metrics.jsonl"}
    assert "one_head" in (kept / "report.md").read_text()
    with pytest.raises(ValueError, match="kept is not empty"):
        evidence.keep(tmp_path / "sweep", kept)
    with pytest.raises(ValueError, match="no finished runs"):
        evidence.keep(tmp_path / "nothing", tmp_path / "other")


def test_the_same_sweep_agrees_with_what_was_kept_of_it(tmp_path, kept):
    found = evidence.compare(tmp_path / "sweep", kept)
    assert len(found) == 6 and all(each.is_inside for each in found)
    assert evidence.agreement_text(found).endswith("6 of 6 means lie within those kept")


def test_a_mean_outside_of_what_was_kept_is_told(tmp_path, kept):
    # Kept are 92, 91 and 93 BLEU: 92.0 ± 2.5.
    for bleu, is_inside in ((94.0, True), (95.0, False)):
        workdir = tmp_path / f"{bleu}"
        fakes.write_record(
            workdir, sweeps.TABLE, sweeps.CONFIG, "base", 0, perplexity=1.3, bleu=bleu
        )
        [_, agreement] = evidence.compare(workdir, kept)
        assert (agreement.measure.short, agreement.is_inside) == ("BLEU", is_inside)
        assert ("OUTSIDE" in evidence.agreement_text([agreement])) != is_inside


def test_sweeps_without_a_common_row_are_told(tmp_path, kept):
    fakes.write_record(
        tmp_path / "other", sweeps.TABLE, sweeps.CONFIG, "one_layer", 0, perplexity=1.3, bleu=1.0
    )
    with pytest.raises(ValueError, match="no finished row in common"):
        evidence.compare(tmp_path / "other", kept)
