"""When a record is that of the run beside it."""

import pytest

from experiments.run.outcomes import read_outcomes
from experiments.run.record import differences_text
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE


def test_a_trial_stays_one_of_a_longer_list():
    def values(number, trial, rate):
        tuning = {"space": [f"rate=[{number}]"], "trials": number, "trial": trial}
        return {"row": "base", "tuning": tuning | {"point": {"rate": rate}}}

    assert differences_text(values(2, 1, 0.1), values(3, 1, 0.1)) == ""
    assert "rate is 0.1 there, 0.2 in run.json" in differences_text(
        values(2, 1, 0.1), values(3, 1, 0.2)
    )
    assert "trial is 0 there, 1 in run.json" in differences_text(
        values(2, 0, 0.1), values(2, 1, 0.1)
    )
    fixed = {"row": "base", "tuning": None}
    assert differences_text(fixed, fixed) == ""
    assert differences_text(fixed, values(2, 0, 0.1)) != ""


@pytest.mark.parametrize("is_directory", [False, True])
def test_a_record_whose_run_is_gone_is_told_and_not_passed_over(tmp_path, is_directory):
    directory = fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=90.0)
    (directory / "run.json").unlink()
    if is_directory:
        (directory / "run.json").mkdir()
    found = read_outcomes(tmp_path)
    assert found.runs == [] and list(found.unreadable) == [directory]
    assert "run.json" in found.unreadable[directory]
