"""A mistake in a config's file is told with its line."""

import pytest

from tests.cli.command import command, module

_CONFIG = """from configs import tiny

def get_config():
    config = tiny.get_config()
    {}
    return config
"""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "config.model.num_head = 4",
            "AttributeError: there is no key num_head (did you mean num_heads?), line 5",
        ),
        ("config.model.zzz = 4", "AttributeError: there is no key zzz, line 5"),
        ("config.model['num_head']", "KeyError: there is no key num_head (did you mean"),
        ("config.model.num_heads = 'eight'", "TypeError: Could not override field 'num_heads'"),
        ("config.seed = int('x')", "ValueError: invalid literal for int() with base"),
        ("config.seed = {}['x']", "KeyError: 'x', line 5"),
        ("config.seed = seed", "NameError: name 'seed' is not defined, line 5"),
        ("config.seed = [][0]", "IndexError: list index out of range, line 5"),
        ("import absent", "ModuleNotFoundError: No module named 'absent', line 5"),
        ("open('absent')", "FileNotFoundError: absent: No such file or directory, line 5"),
        ("config.seed = = 1", "SyntaxError: invalid syntax (mine.py, line 5)"),
    ],
)
def test_a_mistake_in_a_config_is_told_with_its_line(line, sentence, tmp_path):
    (tmp_path / "mine.py").write_text(_CONFIG.replace("{}", line, 1))
    done = command("prepare", f"--config={tmp_path}/mine.py", "--config.seed=2")
    said = f"t2t-jax prepare: {tmp_path}/mine.py cannot be read: {sentence}"
    assert done.returncode == 1 and done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1 and "line 5" in done.stderr


@pytest.mark.parametrize(("returned", "kind"), [("None", "None"), ("config.to_dict()", "a dict")])
def test_a_config_must_return_one(returned, kind, tmp_path):
    (tmp_path / "mine.py").write_text(_CONFIG.replace("{}", f"return {returned}", 1))
    done = command("prepare", f"--config={tmp_path}/mine.py")
    assert done.returncode == 1
    assert f"must return a ConfigDict, not {kind}\n" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("experiments.sweep", "heads", "--dry_run"),
        ("experiments.run", "heads", "--row=heads=1", "--workdir=absent"),
    ],
)
def test_a_base_must_return_one_too(arguments, tmp_path):
    (tmp_path / "mine.py").write_text("def get_config():\n    pass\n")
    done = module(*arguments, f"--base={tmp_path}/mine.py")
    assert done.returncode == 1
    assert "--base: the get_config() of the file must return a ConfigDict, not None" in done.stderr
