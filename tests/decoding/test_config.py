import pytest

from configs import base
from t2t_jax.decoding.config import DecodingConfig

PAPER = base.get_config().decoding.to_dict()


def test_the_papers_search_is_allowed():
    assert DecodingConfig(**PAPER).beam_size == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam_size": 0}, "decoding.beam_size=0 must be at least 1"),
        ({"n_best": 5}, "n_best=5 is more than decoding.beam_size=4"),
        ({"n_best": 0}, "n_best=0 must be at least 1"),
        ({"length_penalty": -0.1}, "length_penalty=-0.1 must be from 0 to 10"),
        ({"length_penalty": float("nan")}, "length_penalty=nan must be from 0 to 10"),
        ({"length_penalty": 60.0}, "length_penalty=60.0 must be from 0 to 10"),
        ({"max_tokens": 10**11}, "max_tokens=100000000000 must be at most 2147483647"),
        ({"max_extra_tokens": -1}, "max_extra_tokens=-1 must be at least 0"),
        ({"max_tokens": -1}, "max_tokens=-1 must be at least 0"),
        ({"length_penalty_formula": "wu"}, "length_penalty_formula='wu' is not one of 'gnmt', 'p"),
        ({"tokens_per_batch": 0}, "tokens_per_batch=0 must be at least 1"),
        ({"average_checkpoints": 0}, "average_checkpoints=0 must be at least 1"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_in_words(changes, message):
    with pytest.raises(ValueError, match=message):
        DecodingConfig(**{**PAPER, **changes})


def test_a_wrong_type_is_refused_by_name():
    with pytest.raises(TypeError, match="beam_size"):
        DecodingConfig(**{**PAPER, "beam_size": 4.0})
