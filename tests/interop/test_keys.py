"""A new config key is handled for models of other libraries, or they are refused."""

import dataclasses
from typing import get_args

import jax
import pytest

from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.interop import ctranslate2_export, marian_export
from t2t_jax.interop.keys import NOT_READ, OF_TRAINING, config_of
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.runs.pretrained import default_config
from t2t_jax.runs.sections import DevicesConfig
from tests.model.configs import SMALL, small, some_ids

FOUND_BY_EVERY_READER = (
    *("family", "vocabulary_rows", "num_encoder_layers", "num_decoder_layers"),
    *("d_model", "d_ff", "num_heads", "d_k", "d_v", "positions", "norm", "norm_epsilon"),
    *("activation", "tied_embeddings", "dropout_rate", "attention_dropout_rate"),
)
MODEL = small(d_k=3, d_v=3, norm_epsilon=1e-5)
FIELDS = {field.name: field.type for field in dataclasses.fields(TransformerConfig)}
ANY_VALUE = {**OF_TRAINING, **NOT_READ}
formats = pytest.mark.parametrize("format", [marian_export, ctranslate2_export])


def another_value(key):
    value = getattr(MODEL, key)
    if choices := get_args(FIELDS[key]):
        return next(choice for choice in choices if choice != value)
    return not value if isinstance(value, bool) else value + (0.5 if value == 0 else 2)


def test_every_key_that_a_reader_may_not_find_has_a_value():
    found = {key: getattr(SMALL, key) for key in FOUND_BY_EVERY_READER}
    assert found.items() <= dataclasses.asdict(config_of(**found)).items()


@formats
def test_every_key_is_named_by_a_format(format):
    format.check_expressible(MODEL)


@formats
def test_a_key_that_nobody_named_is_refused_whatever_its_value(format):
    new = dataclasses.make_dataclass(
        "New", [("window", int)], bases=(TransformerConfig,), frozen=True
    )
    with pytest.raises(ValueError, match="model.window=0: it is not known whether .* can have it"):
        format.check_expressible(new(**dataclasses.asdict(MODEL), window=0))


@formats
@pytest.mark.parametrize(
    "key", [key for key in FIELDS if key not in ANY_VALUE and get_args(FIELDS[key])]
)
def test_a_choice_that_nobody_named_is_refused(format, key):
    config = small(**dataclasses.asdict(MODEL))
    object.__setattr__(config, key, "new")
    with pytest.raises(ValueError, match=f"model.{key}='new': .* can only have"):
        format.check_expressible(config)


def test_what_goes_out_with_any_value_is_not_read_to_translate():
    def translation(config):
        model = make_model(config)

        def logits(params):
            return model.apply({"params": params}, *ids, deterministic=True)

        return str(jax.make_jaxpr(logits)(parameter_shapes(model)))

    ids = some_ids(2, 3), some_ids(2, 3)
    # The same numbers in another way, or rounded in another type.
    by_another_way = {"dtype", "rematerialise", "fused_projections", "scan_layers"}
    others = {key: another_value(key) for key in ANY_VALUE.keys() - by_another_way}
    assert translation(dataclasses.replace(MODEL, **others)) == translation(MODEL)


@pytest.mark.parametrize("section", [DecodingConfig, DevicesConfig])
def test_every_key_of_use_has_a_value(section, tmp_path):
    name = section.__name__.removesuffix("Config").lower()
    fields = {field.name for field in dataclasses.fields(section)}
    assert set(default_config(tmp_path)[name]) == fields
