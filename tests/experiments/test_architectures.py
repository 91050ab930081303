"""Other models are rows of the same base."""

import pytest

from configs import base, language_model, tiny
from experiments.ablation import num_params
from experiments.architectures import TABLE


def test_the_rows_at_a_small_base():
    rows = TABLE.rows(tiny.get_config())
    names = [row.name for row in rows.rows]
    assert names == [
        "base",
        *(f"positions={kind}" for kind in ("learned", "none", "rotary", "relative", "alibi")),
        *("depth=3+1", "depth=1+3", "self_attentions=2"),
        *("recurrent_tanh", "recurrent_tanh_without_attention"),
        *("recurrent_gru", "recurrent_gru_without_attention"),
        *("recurrent_lstm", "recurrent_lstm_without_attention"),
    ]
    assert [row.name for row in rows.left_out] == ["positions=sinusoidal"]


@pytest.mark.parametrize("row", TABLE.rows(tiny.get_config()).rows, ids=lambda row: row.name)
def test_every_row_has_a_model(row):
    assert num_params(row.config(tiny.get_config())) > 100_000


def test_depth_is_shifted_not_added():
    config = base.get_config()
    for row in TABLE.rows(config).select("depth=*").rows:
        model = row.config(config).model
        assert {model.num_encoder_layers, model.num_decoder_layers} == {3, 9}


def test_what_a_base_has_no_room_for_is_left_out_with_the_reason():
    config = tiny.get_config()
    config.model.num_encoder_layers = 1
    assert "none to give away" in dict(TABLE.rows(config).left_out)["depth=1+2"]
    left_out = dict(TABLE.rows(language_model.get_config()).left_out)
    assert "cannot learn data.task='language_modelling'" in left_out["recurrent_gru"]
