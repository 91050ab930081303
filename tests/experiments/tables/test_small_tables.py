"""The tables of our own questions: what their rows keep equal, and what they leave out."""

from typing import get_args

import pytest

from configs import base, language_model, multi30k, tiny
from experiments.tables import (
    depth,
    ensembles,
    heads,
    optimizers,
    positions,
    recurrent,
    table2,
    table3,
)
from experiments.tables.ablation import check_config, num_params
from t2t_jax.model.config import Positions
from t2t_jax.training.config import Optimizer

TINY = tiny.get_config()


def test_positions_are_all_kinds():
    names = [row.name for row in positions.TABLE.rows(TINY).rows]
    assert sorted([TINY.model.positions, *names]) == sorted(["base", *get_args(Positions)])


def test_rotary_positions_are_left_out_where_they_cannot_be():
    odd = tiny.get_config()
    odd.model.d_k = 33
    assert "rotary" in [left.name for left in positions.TABLE.rows(odd).left_out]


@pytest.mark.parametrize(
    ("changes", "left_out"),
    [
        ({"norm": "pre"}, {"counted", "scaled"}),
        ({"embedding_norm": True}, {"counted", "scaled"}),
        ({"norm": "pre", "norm_kind": "rms"}, set()),
    ],
)
def test_a_number_that_layer_norm_takes_away_is_no_row(changes, left_out):
    base = tiny.get_config()
    base.model.update(changes)
    rows = positions.TABLE.rows(base)
    assert {left.name for left in rows.left_out} == left_out
    for kind in left_out:
        config = base.copy_and_resolve_references()
        config.model.positions = kind
        with pytest.raises(ValueError, match=f"positions='{kind}' is a number added to a whole"):
            check_config(config, kind)


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        (table3.TABLE, "num_heads", 0),
        (optimizers.TABLE, "optimizer", "adamm"),
    ],
)
def test_a_base_that_cannot_be_is_told_by_its_key(table, key, value):
    config = tiny.get_config()
    section = config.model if key in config.model else config.training
    section[key] = value
    with pytest.raises(ValueError, match=rf"^base: \w+\.{key}={value!r}"):
        table.rows(config)


def test_optimizers_are_all_others_at_a_share_of_the_bases_rate():
    muon = tiny.get_config()
    muon.training.optimizer, muon.training.weight_decay = "muon", 0.1
    for config in (TINY, muon, base.get_config()):
        rows = optimizers.TABLE.rows(config).rows
        names = [row.name for row in rows]
        assert sorted([config.training.optimizer, *names]) == sorted(["base", *get_args(Optimizer)])
    adam, _, _, lion = (row.config(muon).training for row in optimizers.TABLE.rows(muon).rows[1:])
    assert (adam.peak_learning_rate, adam.weight_decay) == (0.003, 0.0)
    assert (lion.peak_learning_rate, lion.weight_decay) == (0.0006, 0.5)
    assert rows[-2].changes["training.learning_rate_scale"] == 0.2  # of the paper's schedule


def test_heads_share_the_same_keys_and_values():
    rows = heads.TABLE.rows(TINY).rows
    assert [row.name for row in rows[:4]] == ["base", "heads=1", "heads=2", "heads=8"]
    for row in rows:
        model = row.config(TINY).model
        assert model.num_heads * model.d_k == model.num_heads * model.d_v == 128


@pytest.mark.parametrize("table", [depth.TABLE, recurrent.TABLE], ids=lambda table: table.name)
def test_rows_have_as_many_parameters_as_the_base(table):
    wanted = num_params(TINY)
    for row in table.rows(TINY).rows:
        check_config(row.config(TINY), row.name)
        # From one even width to the next a recurrent model gains up to two in a hundred.
        assert num_params(row.config(TINY)) == pytest.approx(wanted, rel=0.012), row.name


def test_two_models_are_compared_with_one_as_large():
    two, four, wide = (row.config(TINY) for row in ensembles.TABLE.rows(TINY).rows[1:])
    assert num_params(two) == 2 * num_params(TINY) == num_params(four) / 2
    assert num_params(wide) == pytest.approx(num_params(two), rel=0.01)
    together = tiny.get_config()
    together.model.ensemble_size = 2
    for config in (together, language_model.get_config()):
        found = ensembles.TABLE.rows(config)
        assert [row.name for row in found.rows] == ["base"]
        assert "a base of one encoder-decoder" in found.left_out[0].reason


def test_layers_are_dealt_out_otherwise():
    by_name = {row.name: row.changes for row in depth.TABLE.rows(TINY).rows}
    assert by_name["depth=3+1"] == {
        "model.num_encoder_layers": 3,
        "model.num_decoder_layers": 1,
        "model.d_ff": 320,  # a decoder layer less is an attention less
    }
    assert by_name["self_attentions=2"] == {
        "model.num_decoder_layers": 1,
        "model.num_self_attentions": 2,
    }


def test_a_base_without_room_for_another_depth_says_so():
    config = tiny.get_config()
    config.model.d_ff = 16
    assert "d_ff would be -48" in dict(depth.TABLE.rows(config).left_out)["depth=1+3"]


def test_recurrent_models_translate_only():
    left_out = dict(recurrent.TABLE.rows(language_model.get_config()).left_out)
    assert "takes the place of an encoder-decoder" in left_out["gru"]


def test_depth_is_of_an_encoder_and_a_decoder():
    one_sided = tiny.get_config()
    one_sided.model.num_encoder_layers = 0
    for config in (language_model.get_config(), one_sided):
        rows = depth.TABLE.rows(config)
        assert [row.name for row in rows.rows] == ["base"]
        assert "an encoder and a decoder" in rows.left_out[0].reason


def test_recurrent_models_make_up_for_learned_positions():
    learned = tiny.get_config()
    learned.model.positions = "learned"
    for row in recurrent.TABLE.rows(learned).rows:
        ours = num_params(row.config(learned))
        assert ours == pytest.approx(num_params(learned), rel=0.02), row.name


def test_rotary_heads_have_an_even_width():
    rotary = tiny.get_config()
    rotary.model.positions = "rotary"
    rows = heads.TABLE.rows(rotary)
    assert all(row.config(rotary).model.d_k % 2 == 0 for row in rows.rows)
    assert [name for name, _ in rows.left_out] == ["heads=128"]


def test_table_2_averages_and_knows_the_papers_bleu_by_language():
    config = base.get_config()
    rows = table2.TABLE.rows(config)
    small, large = rows.rows
    assert small.changes["decoding.average_checkpoints"] == 5
    assert large.changes["decoding.average_checkpoints"] == 20
    assert large.changes["training.steps"] == 3 * config.training.steps
    assert (small.paper.test_bleu, large.paper.test_bleu) == (27.3, 28.4)
    assert large.changes["model.dropout_rate"] == 0.3
    config.data.target_language = "fr"
    assert "model.dropout_rate" not in table2.TABLE.rows(config).rows[1].changes
    assert [row.paper.test_bleu for row in table2.TABLE.rows(config).rows] == [38.1, 41.8]
    assert all(row.paper is None for row in table2.TABLE.rows(multi30k.get_config()).rows)


def test_the_averaged_checkpoints_are_as_far_apart_as_a_rows_own_steps_allow():
    big = table2.TABLE.rows(base.get_config()).named("big")
    # A twentieth of the last tenth of 300,000 steps would be 1,500; the base has 1,000.
    assert big.changes["training.checkpoint_every_steps"] == 1_000


@pytest.mark.parametrize(
    "changes",
    [
        {"model.tied_embeddings": "decoder"},
        {"model.tied_embeddings": "none"},
        {"model.num_encoder_layers": 4, "model.num_decoder_layers": 1},
    ],
    ids=["decoder", "none", "4+1"],
)
def test_recurrent_models_have_the_parameters_of_any_base(changes):
    other = tiny.get_config()
    other.update_from_flattened_dict(changes)
    for row in recurrent.TABLE.rows(other).rows[1:]:
        ours = num_params(row.config(other))
        assert ours == pytest.approx(num_params(other), rel=0.02), row.name


def test_other_sizes_of_keys_and_values_are_kept_equal():
    other = tiny.get_config()
    other.model.d_v = 8
    for row in heads.TABLE.rows(other).rows:
        model = row.config(other).model
        assert (model.num_heads * model.d_k, model.num_heads * model.d_v) == (128, 32)
    for row in depth.TABLE.rows(other).rows:
        assert num_params(row.config(other)) == pytest.approx(num_params(other), rel=0.012)
