"""A key that is new in a config has a value in models of other libraries too."""

import dataclasses

import pytest

from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.interop.model_files import config_of
from t2t_jax.runs.pretrained import default_config
from t2t_jax.runs.sections import DevicesConfig
from tests.model.configs import SMALL

FOUND_BY_EVERY_READER = (
    *("family", "vocabulary_rows", "num_encoder_layers", "num_decoder_layers"),
    *("d_model", "d_ff", "num_heads", "d_k", "d_v", "positions", "norm", "norm_epsilon"),
    *("activation", "tied_embeddings", "dropout_rate", "attention_dropout_rate"),
)


def test_every_key_that_a_reader_may_not_find_has_a_value():
    found = {key: getattr(SMALL, key) for key in FOUND_BY_EVERY_READER}
    assert found.items() <= dataclasses.asdict(config_of(**found)).items()


@pytest.mark.parametrize("section", [DecodingConfig, DevicesConfig])
def test_every_key_of_use_has_a_value(section, tmp_path):
    name = section.__name__.removesuffix("Config").lower()
    fields = {field.name for field in dataclasses.fields(section)}
    assert set(default_config(tmp_path)[name]) == fields
