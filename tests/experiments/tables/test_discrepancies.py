"""One answer per row, recipes made only of answers, and the sources' own numbers."""

import jax.numpy as jnp
import pytest

from configs import base, multi30k, tiny
from experiments.tables.ablation import check_config, check_row, flat
from experiments.tables.discrepancies import RECIPES, TABLE, questions
from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.schedule import learning_rate

BASES = {"base": base, "multi30k": multi30k, "tiny": tiny}
every_base = pytest.mark.parametrize("name", BASES)


def _config(name):
    config = BASES[name].get_config()
    if config.data.source == "text":
        config.data.directory = "."
    return config


def _changes(config, question, answer):
    return questions(config)[question][answer].changes


@every_base
def test_every_row_is_a_valid_config(name):
    config = _config(name)
    for row in TABLE.rows(config).rows:
        check_config(row.config(config), row.name)


@every_base
def test_every_answer_is_a_row_or_the_bases_own(name):
    config = _config(name)
    table = TABLE.rows(config)
    rows, left_out = {row.name for row in table.rows}, dict(table.left_out)
    for question, answers in questions(config).items():
        for answer, (changes, _) in answers.items():
            is_the_bases = all(flat(config)[key] == value for key, value in changes.items())
            assert (f"{question}={answer}" in rows) != is_the_bases
            if is_the_bases:
                assert "same as base" in left_out[f"{question}={answer}"]


@every_base
def test_two_answers_of_a_question_differ_and_those_of_two_questions_do_not_meet(name):
    config = _config(name)
    keys_before = set()
    for answers in questions(config).values():
        changes = [dict(answer.changes) for answer in answers.values()]
        assert all(one != other for i, one in enumerate(changes) for other in changes[:i])
        keys = {key for change in changes for key in change}
        assert not keys & keys_before
        keys_before |= keys


@every_base
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_its_answers_and_nothing_else(name, recipe):
    config = _config(name)
    expected = flat(config)
    for question, answer in RECIPES[recipe].items():
        expected |= _changes(config, question, answer)
    assert flat(TABLE.rows(config).named(recipe).config(config)) == expected


def test_recipes_answer_every_question_but_those_their_source_leaves_open():
    asked = set(questions(_config("base")))
    left_open = {name: asked - set(recipe) for name, recipe in RECIPES.items()}
    assert left_open == {
        "t2t_2017": {"bleu", "schedule", "vocabulary"},  # the last two as the paper
        "t2t_head": {"bleu"},
        "fairseq": {"bleu", "schedule", "batch"},
        "flax_wmt": {"bleu"},
    }


def test_the_paper_with_tensor2tensors_sinusoids_and_batch_is_t2t_2017():
    row = TABLE.rows(_config("base")).named("t2t_2017")
    assert row.changes == {
        "model.positions": "sinusoidal_tensor2tensor",
        "data.source_tokens_per_batch": 32_768,
        "data.target_tokens_per_batch": 32_768,
    }


def _peak(config):
    """Steps of warm-up and the learning rate at their end."""
    warmup = config.training.warmup_steps
    training = TrainingConfig(**config.training)
    return warmup, float(learning_rate(jnp.asarray(warmup), training, config.model.d_model))


@pytest.mark.parametrize(
    ("recipe", "warmup", "peak"),
    [
        ("t2t_2017", 4_000, (512 * 4_000) ** -0.5),
        ("t2t_head", 8_000, 2 * (512 * 8_000) ** -0.5),
        ("fairseq", 4_000, 0.0007),
        ("flax_wmt", 1_000, 0.002),
    ],
)
def test_schedules_at_the_papers_base_are_those_of_the_sources(recipe, warmup, peak):
    config = _config("base")
    assert _peak(TABLE.rows(config).named(recipe).config(config)) == (
        warmup,
        pytest.approx(peak, rel=5e-3),
    )


@pytest.mark.parametrize("answer", ["t2t", "flax_wmt"])
def test_a_schedule_is_the_same_share_of_every_base(answer):
    shares = []
    for name in BASES:
        config = _config(name)
        warmup, peak = _peak(config)
        other = TABLE.rows(config).named(f"schedule={answer}").config(config)
        other_warmup, other_peak = _peak(other)
        shares.append((other_warmup / warmup, other_peak / peak))
    assert shares == [(shares[0][0], pytest.approx(shares[0][1], rel=1e-3))] * len(BASES)


def test_dropout_inside_is_as_much_as_outside_where_there_is_some():
    for name, rate in (("base", 0.1), ("multi30k", 0.2), ("tiny", 0.1)):
        changes = _changes(_config(name), "inner_dropout", "yes")
        assert set(changes.values()) == {rate}


def test_what_is_averaged_is_of_the_end_of_the_training_at_any_size():
    assert _changes(_config("base"), "averaging", "10")["training.checkpoint_every_steps"] == 1000
    for name in ("base", "multi30k", "tiny"):
        for number in (5, 10):
            config = _config(name)
            config.update_from_flattened_dict(_changes(config, "averaging", str(number)))
            training = config.training
            assert training.checkpoint_every_steps * number <= training.steps / 10


def test_answers_that_a_base_has_no_room_for_are_left_out_with_the_reason():
    config = _config("tiny")
    config.data.max_length = 500
    config.training.update(steps=4, warmup_steps=3)
    left_out = dict(TABLE.rows(config).left_out)
    assert "no room for a sentence of data.max_length=500" in left_out["batch=an_eighth"]
    assert "warm-up would be 6 of 4 steps" in left_out["schedule=t2t"]
    assert "4 steps leave no 5 checkpoints in their last tenth" in left_out["averaging=5"]
    assert left_out["t2t_head"] == left_out["schedule=t2t"]


def test_a_batch_without_room_for_a_packed_row_is_left_out():
    config = _config("tiny")
    config.data.batching = "packed"
    left_out = dict(TABLE.rows(config).left_out)
    room = config.data.packed_length
    assert f"no room for a row of data.packed_length={room}" in left_out["batch=an_eighth"]
    config.data.packed_length = 32
    assert "batch=an_eighth" not in dict(TABLE.rows(config).left_out)


def test_checkpoints_by_the_clock_are_not_averaged():
    config = _config("tiny")
    config.training.checkpoint_every_minutes = 10.0
    rows = TABLE.rows(config)
    assert "does not say at which steps" in dict(rows.left_out)["averaging=5"]
    for row in rows.rows:
        check_row(row, config)


SINUSOIDS = {"model.positions": "sinusoidal_tensor2tensor"}
INNER_DROPOUT = {"model.attention_dropout_rate": 0.1, "model.feed_forward_dropout_rate": 0.1}
TODAY = {"model.norm": "pre", "model.attention_init": "separate", "model.attention_biases": False}


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        (
            "t2t_head",
            {
                **SINUSOIDS,
                **INNER_DROPOUT,
                **TODAY,
                "training.warmup_steps": 8_000,
                "training.learning_rate_scale": 2.0,
                "training.adam_beta2": 0.997,
                "data.vocabulary_size": 32_768,
                "model.vocabulary_rows": 32_768,
                "data.source_tokens_per_batch": 32_768,
                "data.target_tokens_per_batch": 32_768,
                "decoding.max_extra_tokens": 100,
            },
        ),
        (
            "fairseq",
            {
                **SINUSOIDS,
                "model.first_position": 2,
                "training.adam_epsilon": 1e-8,
                "data.vocabulary_size": 32_768,
                "model.vocabulary_rows": 32_768,
                "decoding.length_penalty_formula": "power",
                "decoding.average_checkpoints": 10,
                "training.keep_checkpoints": 10,
                "decoding.max_tokens": 201,
                "model.norm_epsilon": 1e-5,
            },
        ),
        (
            "flax_wmt",
            {
                **SINUSOIDS,
                **INNER_DROPOUT,
                **TODAY,
                "training.warmup_steps": 1_000,
                "training.learning_rate_scale": 1.431,
                "data.vocabulary_size": 32_000,
                "model.vocabulary_rows": 32_000,
                "data.source_tokens_per_batch": 65_536,
                "data.target_tokens_per_batch": 65_536,
                "model.embedding_init": "unit",
                "model.scale_embeddings": False,
                "model.scale_logits": True,
                "decoding.max_tokens": 256,
            },
        ),
    ],
)
def test_a_recipe_at_the_papers_base_is_what_its_source_says(recipe, changes):
    assert TABLE.rows(base.get_config()).named(recipe).changes == changes
