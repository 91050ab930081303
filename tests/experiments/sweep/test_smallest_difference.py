"""The smallest difference that so many seeds detect, before any training."""

import math
import re

import numpy as np
import pytest
from ml_collections import ConfigDict

from configs import tiny
from experiments.report import against_base
from experiments.report.measures import PERPLEXITY, TEST_BLEU
from experiments.run import record
from experiments.sweep import smallest_difference
from experiments.sweep.smallest_difference import smallest, text
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE


def _sizes(words):
    """BLEU by number of seeds."""
    words = " ".join(words.split())
    return {int(n): float(bleu) for n, bleu in re.findall(r"(\d+) seeds: ([\d.]+) BLEU", words)}


def _other(**keys):
    config = tiny.get_config()
    with config.unlocked():
        config.update_from_flattened_dict(keys)
    return config


def _write(workdir, config=CONFIG):
    noise = {"base": (0.3, -0.1, 0.2), "one_head": (0.0, 0.5, 0.7), "one_layer": (0.4, 0.1, -0.6)}
    for row, its in noise.items():
        for seed, bleu in enumerate(its):
            fakes.write_record(
                workdir, TABLE, config, row, seed,
                perplexity=2.0 + bleu / 10, bleu=80.0 + 10 * seed + bleu,
            )  # fmt: skip
    return np.array([*noise.values()])


def test_it_is_half_an_interval_of_rows_that_are_alike():
    # Of one row, the median of paired t tests: the root of a chi-square of 4 degrees over 4.
    expected = 2.776 * math.sqrt(2 * 3.357 / 4 / 5)
    assert smallest(1, 5) == pytest.approx(expected, rel=0.15)
    many = smallest(10, 30)
    found = against_base.Contrasts(
        np.zeros((1, 10)), np.ones((1, 1)), np.ones((1, 10)), 29, np.full((1, 1), 290.0), 30
    )
    assert many == pytest.approx(against_base.half_widths(found, 0.05)[0, 0], rel=0.15)


def test_more_seeds_see_less_and_a_number_can_be_given():
    sizes = _sizes(text(CONFIG, 16, 4, bleu=0.5, workdir=None))
    assert list(sizes) == [2, 3, 4, 5, 10]
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    for wrong in (0.0, -1.0):
        with pytest.raises(ValueError, match="--noise=.* must be positive"):
            text(CONFIG, 16, 4, bleu=wrong, workdir=None)


def test_noise_is_what_rows_and_seeds_leave_over(tmp_path):
    left = _write(tmp_path)
    left = left - left.mean(0) - left.mean(1, keepdims=True) + left.mean()
    outcomes = smallest_difference._of_base(tmp_path, CONFIG.to_dict())
    found = smallest_difference._noise(outcomes)
    assert found[TEST_BLEU].deviation == pytest.approx(math.sqrt((left**2).sum() / 4))
    assert math.exp(found[PERPLEXITY].typical) == pytest.approx(2.0, rel=0.02)
    words = " ".join(text(CONFIG, 4, 3, bleu=None, workdir=tmp_path).split())
    assert f"by the 3 rows of this base in {tmp_path}" in words and " PPL" in words
    assert _sizes(words)[3] == pytest.approx(found[TEST_BLEU].deviation * smallest(4, 3), abs=0.06)


def test_a_row_that_diverged_takes_nothing_from_the_others_noise(tmp_path):
    _write(tmp_path)
    before = smallest_difference._noise(smallest_difference._of_base(tmp_path, CONFIG.to_dict()))
    for seed in range(3):
        perplexity = math.inf if seed == 1 else 2.0
        fakes.write_record(
            tmp_path, TABLE, CONFIG, "no_positions", seed, perplexity=perplexity, bleu=80.0
        )
    after = smallest_difference._noise(smallest_difference._of_base(tmp_path, CONFIG.to_dict()))
    assert after[PERPLEXITY] == before[PERPLEXITY]


def test_a_row_far_noisier_than_the_others_is_left_out(tmp_path):
    _write(tmp_path)
    for row, step in (("learned_positions", 0.4), ("no_positions", 30.0)):
        before = smallest_difference._noise(
            smallest_difference._of_base(tmp_path, CONFIG.to_dict())
        )
        for seed, sign in enumerate((1, -1, 1)):
            bleu = 50.0 + 10 * seed + sign * step
            fakes.write_record(tmp_path, TABLE, CONFIG, row, seed, perplexity=2.0, bleu=bleu)
    after = smallest_difference._noise(smallest_difference._of_base(tmp_path, CONFIG.to_dict()))
    assert before[TEST_BLEU].num_rows == 4
    assert after[TEST_BLEU] == before[TEST_BLEU]


def test_perplexities_near_1_have_a_digit_more():
    noise = smallest_difference.Noise(0.003, 5, math.log(1.2))
    assert smallest_difference._text(PERPLEXITY, noise, 1.5) == "0.005 PPL"
    noise = smallest_difference.Noise(0.003, 5, math.log(12.0))
    assert smallest_difference._text(PERPLEXITY, noise, 1.5) == "0.05 PPL"


def test_runs_of_another_base_say_nothing_unless_they_differ_in_what_does_not_matter(tmp_path):
    _write(tmp_path, _other(**{"evaluation.num_probes": 7}))
    assert str(tmp_path) in text(CONFIG, 4, 3, bleu=None, workdir=tmp_path)
    other = _other(**{"training.steps": 77})
    words = text(other, 4, 3, bleu=None, workdir=tmp_path)
    assert words.startswith("Smallest difference: not known; give --noise=S")


def test_kept_records_are_looked_at_where_no_others_are():
    kept = smallest_difference.KEPT / "table3_tiny" / "table3" / "base" / "seed-0"
    words = text(ConfigDict(record.read_run(kept).base), 16, 3, bleu=None, workdir=None)
    assert "experiments/results" in words and 0.3 < _sizes(words)[3] < 3
