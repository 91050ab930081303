"""A key not listed changes what is learned."""

import re

import pytest
from flax.traverse_util import unflatten_dict

from configs import base
from t2t_jax.json_files import flat_dict, write_json
from t2t_jax.runs import keys
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.workdir import check_config, read_config

KEYS = flat_dict(base.get_config().to_dict()).keys()
NEW = {"new", *(f"{section}.new" for section in ("data", "model", "training", "devices"))}
NEW |= {f"{key}_of_something" for key in keys.WHERE}


def test_what_is_named_is_a_key_and_nothing_else_is_named():
    assert keys.WHERE <= keys._MAY_CHANGE <= KEYS
    assert not any(map(keys.may_change, NEW))


def test_a_run_goes_on_with_other_values_of_those_alone(tmp_path):
    write_json(tmp_path / "config.json", dict.fromkeys([*KEYS, *NEW], "another"))
    with pytest.raises(ValueError) as refused:
        check_config(tmp_path, read_sections(base.get_config()))
    told = re.findall(r"([\w.]+) was 'another'", str(refused.value))
    assert set(told) == {key for key in KEYS if not keys.may_change(key)} - {"training.steps"} | NEW


def test_a_run_of_before_a_key_came_did_what_base_says(tmp_path):
    later = keys.completed({})
    values = base.get_config().to_dict()
    assert later.items() <= flat_dict(values).items()
    before = {key: value for key, value in flat_dict(values).items() if key not in later}
    write_json(tmp_path / "config.json", unflatten_dict(before, sep="."))
    check_config(tmp_path, read_sections(base.get_config()))
    assert flat_dict(read_config(tmp_path).to_dict()).items() >= later.items()
    now = base.get_config()
    now.model.residual = False
    with pytest.raises(ValueError, match=r"model\.residual was True, now it is False; use"):
        check_config(tmp_path, read_sections(now))


def test_a_section_without_keys_is_refused_by_name(tmp_path):
    (tmp_path / "config.json").write_text('{"seed": 0, "data": 5}')
    with pytest.raises(ValueError, match=r"config.json is not a config: data must have keys"):
        read_config(tmp_path)
