"""The points of a space, and invalid spaces."""

import math

import pytest

from configs import tiny
from experiments.tables import optimizers, quickstart, tuning
from experiments.tables.ablation import Row

BASE = tiny.get_config()
RATE = "training.peak_learning_rate"
LOG = f"{RATE}=log(2e-4,8e-3)"


def _values(words, number, key=RATE):
    return [point[key] for point in tuning.space(words, number, BASE).points]


def test_one_range_is_cut_evenly_and_has_its_ends():
    rates = _values([LOG], 5)
    assert rates == [2e-4, 0.000503, 0.001265, 0.003181, 8e-3]
    ratios = [high / low for low, high in zip(rates, rates[1:], strict=False)]
    assert ratios == pytest.approx([40**0.25] * 4, rel=1e-3)
    assert _values([f"{RATE}=lin(0.001,0.003)"], 3) == [0.001, 0.002, 0.003]


def test_values_have_the_type_of_the_base():
    steps = _values(["training.warmup_steps = log(10, 1000)"], 4, "training.warmup_steps")
    assert steps == [10, 46, 215, 1000] and all(type(step) is int for step in steps)
    assert _values(["model.norm=[pre,post]"], None, "model.norm") == ["pre", "post"]
    assert _values(["model.tied_embeddings=[all,none]"], 2, "model.tied_embeddings")[0] == "all"
    assert _values(["model.dropout_rate=[0,0.1,0.3]"], None, "model.dropout_rate") == [0, 0.1, 0.3]
    assert _values(["model.scale_embeddings=[true,false]"], None, "model.scale_embeddings") == [
        True,
        False,
    ]


@pytest.mark.parametrize("number", range(2, 60))
def test_a_list_of_any_length_is_tried_whole(number):
    rates = [round(0.001 * place, 3) for place in range(1, number + 1)]
    assert _values([f"{RATE}={rates}"], None) == rates


def test_several_keys_fill_the_space_evenly_and_always_alike():
    words = [LOG, "model.dropout_rate=lin(0,0.4)", "model.norm=[pre,post]"]
    points = tuning.space(words, 8, BASE).points
    assert points == tuning.space(words, 8, BASE).points and len(points) == 8
    # Of eight points of a Sobol sequence each eighth of every axis has one.
    places = [8 * math.log(point[RATE] / 2e-4) / math.log(40) for point in points]
    assert sorted(map(int, places)) == list(range(8))
    assert sorted(int(point["model.dropout_rate"] / 0.05) for point in points) == list(range(8))
    assert sum(point["model.norm"] == "pre" for point in points) == 4
    assert tuning.space(words, 5, BASE).points == points[:5]


@pytest.mark.parametrize(
    ("words", "number", "sentence"),
    [
        ([LOG], 1, "--tune needs --trials=N, at least 2 per row, not 1"),
        ([LOG], None, "--tune needs --trials=N, at least 2 per row"),
        ([f"{RATE}=log(0,1)"], 3, "LOW and HIGH must be numbers above 0, LOW below HIGH"),
        ([f"{RATE}=lin(2,1)"], 3, "LOW and HIGH must be numbers LOW below HIGH"),
        ([f"{RATE}=log(1,inf)"], 3, "LOW and HIGH must be numbers"),
        (["model.norm=log(1,2)"], 3, "LOW and HIGH must be numbers"),
        ([f"{RATE}=log(1,x)"], 3, "'x' must be a number, as base's 0.003 is"),
        (["training.steps=[1,1.5]"], 2, "'1.5' must be a whole number, as base's "),
        ([f"{RATE}=2e-4"], 3, "write KEY=log(LOW,HIGH), KEY=lin(LOW,HIGH) or KEY=[A,B,C]"),
        (["training.peak_rate=log(1,2)"], 3, f"no key training.peak_rate; did you mean {RATE}?"),
        (["data.vocabulary_size=log(10,99)"], 3, "only keys of model and training can be tuned"),
        ([LOG, LOG], 3, "names a key twice"),
        ([f"{RATE}=[1,2,3]"], 2, "--trials=2, but --tune has 3 values"),
        (["training.warmup_steps=lin(1,3)"], 5, "has no 5 different points"),
    ],
)
def test_what_is_no_space_is_told_in_a_sentence(words, number, sentence):
    with pytest.raises(ValueError) as told:
        tuning.space(words, number, BASE)
    assert sentence in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("training.warmup_steps", "would undo what --equal sets"),
        ("training.learning_rate_scale", "would undo what --equal sets"),
        ("training.steps", "changes what an update costs"),
        ("model.d_ff", "changes what an update costs"),
        (RATE, None),
    ],
)
def test_what_equal_rests_on_is_not_tuned_beside_it(key, sentence):
    found = tuning.space([f"{key}=[1,2]"], None, BASE)
    if sentence is None:
        tuning.check_costs_nothing(found)
    else:
        with pytest.raises(ValueError, match=f"--tune={key} {sentence}"):
            tuning.check_costs_nothing(found)


def test_a_row_that_the_tuned_key_alone_makes_is_refused():
    found = tuning.space([LOG], 3, BASE)
    with pytest.raises(ValueError, match=f"row slow changes nothing but {RATE}, which --tune sets"):
        tuning.check(found, [Row("base", {}), Row("slow", {RATE: 1e-5})], BASE)
    # One that changes more than the key has the tuned value in the place of its own.
    rows = optimizers.TABLE.rows(BASE).rows
    tuning.check(found, rows, BASE)
    [lion] = [row for row in rows if row.name == "lion"]
    config = tuning.at(lion, found.points[0]).config(BASE)
    assert (config.training.optimizer, config.training.peak_learning_rate) == ("lion", 2e-4)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("model.dropout_rate=lin(0,1.5)", "row base with --tune at dropout_rate=1.5: "),
        ("training.learning_rate_scale=log(0.1,2)", "training.learning_rate_scale has no effect"),
    ],
)
def test_a_value_that_a_row_cannot_have_or_does_not_read_is_told(words, sentence):
    with pytest.raises(ValueError, match=sentence):
        tuning.check(tuning.space([words], 2, BASE), quickstart.TABLE.rows(BASE).rows, BASE)
