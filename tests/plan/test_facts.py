"""The compiler's results are kept; equal programs count as one."""

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest

from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.devices import make_devices
from t2t_jax.json_files import read_json
from t2t_jax.plan import facts
from t2t_jax.plan.facts import Keeper, Program, shared
from t2t_jax.plan.hardware import topology
from t2t_jax.runs import keys
from t2t_jax.training.config import TrainingConfig
from tests.plan.stand_in import StandIn, sections
from tests.plan.test_fitting import SHAPE


def program(**changes):
    on = topology("v5e-8")
    return Program(shared(sections(**changes), on), on, SHAPE)


def test_a_program_is_compiled_once_for_all_who_keep_facts_in_the_file(tmp_path):
    compiler = StandIn()
    first = Keeper(tmp_path / "facts.json", compiler)(program())
    again = Keeper(tmp_path / "facts.json", compiler)(program())
    assert first == again and len(compiler.asked) == 1


def test_facts_of_commands_at_work_at_once_are_all_kept(tmp_path, monkeypatch):
    path, kept = tmp_path / "facts.json", Keeper._kept

    def slowly(keeper):
        found = kept(keeper)
        time.sleep(0.05)
        return found

    monkeypatch.setattr(Keeper, "_kept", slowly)
    programs = [program(**{"model.d_ff": width}) for width in (16, 32, 48, 64)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda each: Keeper(path, StandIn())(each), programs))
    assert set(read_json(path)["programs"]) == {each.key for each in programs}


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 3},
        {"model.dropout_rate": 0.3},
        {"training.label_smoothing": 0.2},
        {"training.steps": 77_777},
        {"training.peak_learning_rate": 1e-4},
        {"devices.data": 8},
        {"decoding.beam_size": 2},
    ],
)
def test_a_number_that_makes_no_other_program_is_not_compiled_anew(changes):
    assert program(**changes).key == program().key


@pytest.mark.parametrize(
    "changes",
    [
        {"model.dropout_rate": 0.0},
        {"model.d_ff": 96},
        {"model.rematerialise": True},
        {"training.microbatches": 2},
        {"training.optimizer": "lion"},
        {"training.logits_dtype": "bfloat16", "model.dtype": "bfloat16"},
        {"model.residual": False},
        {"devices.fsdp": 2},
    ],
)
def test_another_program_has_facts_of_its_own(changes):
    assert program(**changes).key != program().key


def test_a_key_that_came_later_is_no_part_of_a_program_that_does_as_before():
    for is_search in (False, True):
        identity = str(program()._replace(is_search=is_search)._identity())
        for key in keys.completed({}):
            if key == "devices.matmul_precision":  # of which a program always was
                continue
            assert f"'{key.partition('.')[2]}'" not in identity
    assert "'residual': False" in str(program(**{"model.residual": False})._identity())


def test_what_is_no_part_of_a_step_are_keys_of_training():
    assert {field.name for field in dataclasses.fields(TrainingConfig)} > set(facts._NOT_IN_A_STEP)


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(DecodingConfig)])
def test_a_key_of_decoding_makes_another_search_unless_it_is_named(key):
    search = program()._replace(is_search=True)
    decoding = search.sections.decoding
    value = getattr(decoding, key)
    choices = get_args(DecodingConfig.__annotations__[key])
    another = choices[1 - choices.index(value)] if choices else value + 1
    changed = decoding.__class__(**dataclasses.asdict(decoding) | {"beam_size": 9, key: another})
    before = decoding.__class__(**dataclasses.asdict(decoding) | {"beam_size": 9})
    keys_of_searches = {
        search._replace(sections=search.sections._replace(decoding=each)).key
        for each in (before, changed)
    }
    assert len(keys_of_searches) == (1 if key in facts._NOT_IN_A_SEARCH else 2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_search_is_lowered_with_weights_of_its_type(dtype):
    search = program(**{"decoding.weights_dtype": dtype})._replace(is_search=True)
    lowered, *_ = facts._lowered_search(search, make_devices(data=1))
    assert ("bf16" in lowered.as_text()) == (dtype == "bfloat16")


def test_a_search_knows_nothing_of_training_and_a_step_nothing_of_searching():
    def search(**changes):
        return program(**changes)._replace(is_search=True)

    assert search(**{"model.dropout_rate": 0.0, "training.microbatches": 2}).key == search().key
    assert search(**{"decoding.beam_size": 2}).key != search().key
    assert search().key != program().key


def test_without_the_compiler_kept_facts_are_used_and_others_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "facts.json"
    kept = Keeper(path, StandIn())(program())
    monkeypatch.setattr(facts, "_versions", lambda: {"jax": "9"})
    keeper = Keeper(path)
    assert keeper(program()) == kept
    assert len(keeper.told) == 1  # that another version said so
    with pytest.raises(ValueError, match=r"compiler is not installed.*-e '\.\[tpu\]'"):
        keeper(program(**{"model.d_ff": 96}))


@pytest.mark.parametrize(
    ("versions", "text", "is_anew"),
    [
        ({"libtpu": "9", "code": "old"}, "a program", False),  # as it was
        ({"libtpu": "9", "code": "new"}, "a program", False),  # the same from other code
        ({"libtpu": "9", "code": "new"}, "another", True),
        ({"libtpu": "8", "code": "old"}, "a program", True),  # another compiler
        ({"libtpu": "9", "code": "old", "XLA_FLAGS": "--a"}, "a program", True),  # other flags
    ],
)
def test_facts_are_asked_anew_of_another_compiler_or_another_program(
    tmp_path, monkeypatch, versions, text, is_anew
):
    class Compiler(StandIn):
        def __call__(self, program):
            return super().__call__(program)._replace(text="a program")

    def keeper_with(versions, compiler):
        monkeypatch.setattr(facts, "_versions", lambda: {"jax": "9"} | versions)
        monkeypatch.setattr(facts, "compiled_facts", compiler)
        return Keeper(tmp_path / "facts.json")

    keeper_with({"libtpu": "9", "code": "old"}, Compiler(state=3))(program())
    monkeypatch.setattr(facts, "program_digest", lambda _: text)
    for _ in range(2):
        found = keeper_with(versions, Compiler(state=6))(program())
        assert found.state_bytes == (6 if is_anew else 3)


def test_the_compilers_flags_are_among_what_made_the_facts(monkeypatch):
    facts._versions.cache_clear()
    host, gpu = "--xla_force_host_platform_device_count=8", "--xla_gpu_c=1"  # not a TPU's
    monkeypatch.setenv("XLA_FLAGS", f"{host} --xla_a=1 {gpu}")
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_b=2")
    found = facts._versions()
    assert (found["XLA_FLAGS"], found["LIBTPU_INIT_ARGS"]) == ("--xla_a=1", "--xla_b=2")
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.delenv("LIBTPU_INIT_ARGS")
    facts._versions.cache_clear()
    assert not {"XLA_FLAGS", "LIBTPU_INIT_ARGS"} & facts._versions().keys()
    facts._versions.cache_clear()


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "facts.json").write_text('{"model": 1}')
    with pytest.raises(ValueError, match="holds no facts of programs"):
        Keeper(tmp_path / "facts.json", StandIn())(program())
