"""When a record is that of the run beside it."""

from experiments.run.record import differences_text


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
