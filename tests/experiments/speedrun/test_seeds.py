"""Seeds run one after another, none twice. Except in the last test, their results are made up."""

import os
import runpy
from pathlib import Path

import pytest

from configs import multi30k
from experiments.speedrun import records, seed, seeds
from experiments.speedrun.rules import read_record, tricks
from experiments.speedrun.seed import CONFIG_FILE, FOUND_FILE
from t2t_jax.data.corpora import embedded_corpus
from t2t_jax.json_files import read_json, write_json
from t2t_jax.runs import score, workdir
from t2t_jax.runs.sections import read_sections
from tests.cli.command import in_this_process
from tests.experiments.speedrun.test_rules import FIRST, PAIRS, TEXT
from tests.runs.configs import smallest_config

STEPS = multi30k.get_config().training.steps
WORDS = (
    *("experiments.speedrun", "--config=configs/multi30k.py", "--target=35.0"),
    "--config.data.directory=somewhere",
)


@pytest.fixture
def done():
    """The numbers of the seeds that were run."""
    return []


@pytest.fixture
def found(monkeypatch, tmp_path, done):
    """What the seeds find that are run: by number, or by name what is so of all of them."""
    told: dict = {}

    def seconds_of(directory):
        assert os.listdir(directory) == [CONFIG_FILE]
        config = read_json(directory / CONFIG_FILE)
        assert config["data"]["cache"] == str(directory / "cache")
        assert [name for name in os.environ if name[:4] in ("XLA_", "JAX_")] == ["JAX_PLATFORMS"]
        number = config["seed"]
        done.append(number)
        (directory / "half").touch()
        if told.get("fails") == number:
            raise ValueError(f"{directory} failed")
        if told.get("edits") == number:
            told["commit"] = "1" * 40
        values = {"bleu": 35.2 + 0.1 * (number % 2), "step": 130, "hardware": "Some CPU, 2 cores"}
        stages = {"prepare": 5.0, "train": 80.0, "choose": 0.0, "score": 10.0}
        values |= {"seconds": stages, "text": TEXT, "pairs": PAIRS, "versions": {"jax": "1"}}
        write_json(directory / FOUND_FILE, values | told.get(number, {}))
        return 100.0 + number

    monkeypatch.setattr(seeds, "seconds_of", seconds_of)
    monkeypatch.setattr(seeds, "commit", lambda: told.get("commit", "0" * 40))
    monkeypatch.setattr(seeds, "packages", lambda: told.get("packages", {"jax": "1"}))
    monkeypatch.setattr(seeds, "machine", lambda: told.get("machine", {"cpu": "Some CPU"}))
    monkeypatch.setattr(seeds, "content_hashes", lambda data: TEXT)
    monkeypatch.setattr(records, "RECORDS", tmp_path / "kept")
    for name in ("XLA_FLAGS", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_PLATFORMS"):
        monkeypatch.setenv(name, "cpu")
    return told


def speedrun(workdir, *more):
    def run():
        runpy.run_module("experiments.speedrun", run_name="__main__", alter_sys=True)

    return in_this_process(run, *WORDS, f"--workdir={workdir}", *more)


def test_five_seeds_are_run_once_and_make_a_record(found, done, tmp_path):
    first = speedrun(tmp_path / "w")
    assert first.returncode == 0 and done == [0, 1, 2, 3, 4], first.stderr
    path = tmp_path / "w" / "record.json"
    assert first.stdout.splitlines()[1:] == [
        *(f"seed {number}: 35.{2 + number % 2}0 BLEU in 10{number}.0 s" for number in range(1, 5)),
        f"{path} counts: keep it in {tmp_path / 'kept'}",
    ]
    record = read_record(path)
    assert record.config == tricks(multi30k.get_config().to_dict())
    assert not {"seed", "data.cache", "data.directory"} & set(record.config)
    assert "devices.data" in record.config and "training.microbatches" in record.config
    assert record.seeds[3].seconds == {
        **{"start": 8.0, "prepare": 5.0, "train": 80.0, "choose": 0.0, "score": 10.0},
        "total": 103.0,
    }
    assert record.command == (
        "python -m experiments.speedrun --config=configs/multi30k.py --config.data.directory=DIR "
        "--target=35.0 --seeds=5 --workdir=W"
    )
    assert str(tmp_path) not in path.read_text()
    again = speedrun(tmp_path / "w")
    assert again.stdout == first.stdout and done == [0, 1, 2, 3, 4]


def test_the_config_as_it_is_may_be_named_by_any_path(found, monkeypatch, tmp_path):
    file = Path(multi30k.__file__).resolve()
    monkeypatch.setitem(globals(), "WORDS", (WORDS[0], f"--config={file}", *WORDS[2:]))
    assert speedrun(tmp_path).returncode == 0
    record = read_record(tmp_path / "record.json")
    assert record.as_it_is and str(file) not in record.command


def test_a_seed_that_failed_begins_anew(found, done, tmp_path):
    found["fails"] = 2
    ended = speedrun(tmp_path)
    assert (ended.returncode, ended.stderr) == (1, f"speedrun: {tmp_path / 'seed-2'} failed\n")
    assert not (tmp_path / "record.json").exists()
    del found["fails"]
    assert speedrun(tmp_path).returncode == 0
    assert done == [0, 1, 2, 2, 3, 4]


def test_seeds_of_code_that_changes_meanwhile_are_dropped(found, done, tmp_path):
    found["edits"] = 1
    ended = speedrun(tmp_path)
    assert f"now it is {'1' * 40}: the results of {tmp_path / 'seed-1'} are dr" in ended.stderr
    assert not (tmp_path / "seed-1" / "seed.json").exists()
    del found["commit"], found["edits"]
    assert speedrun(tmp_path).returncode == 0 and done == [0, 1, 1, 2, 3, 4]


def test_the_run_of_a_sweep_is_not_removed(found, done, tmp_path):
    record = tmp_path / "seed-3" / "run.json"
    write_json(record, {})
    assert f"{tmp_path / 'seed-3'} is a run of a sweep: choose" in speedrun(tmp_path).stderr
    assert record.exists() and done == []


def test_fewer_than_five_seeds_are_told_and_do_not_count(found, tmp_path):
    ended = speedrun(tmp_path, "--seeds=3")
    path = tmp_path / "record.json"
    assert ended.stdout.splitlines()[-1] == (f"{path} does not count: it has 3 of at least 5 seeds")
    assert ended.stderr == (  # before the first of them
        "speedrun: what comes of this will not count: it has 3 of at least 5 seeds\n"
    )
    assert ended.returncode == 0 and not read_json(path)["derived"]["counts"]


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        ({"packages": {"jax": "2"}}, [], "a different versions jax: '1' there, '2' now"),
        ({}, ["--seeds=6"], "with a different number of seeds: 5 there, 6 now"),
        ({}, ["--config.seed=1"], "with a different first seed: 0 there, 1 now"),
        ({"commit": "1" * 40}, [], f"with a different commit: '{'0' * 40}' there, '1111"),
        ({"machine": {"cpu": "Other"}}, [], "different machine cpu: 'Some CPU' there, 'Other' now"),
        (
            {},
            ["--config.training.steps=900"],
            f"different config training.steps: {STEPS} there, 900 now",
        ),
        ({3: {"hardware": "1 x GPU"}}, [], "different hardware: '1 x GPU' there, 'Some CPU, 2 co"),
        ({3: {"text": {"train.en": "9"}}}, [], "a different text train.en: '9' there, '460a15f"),
    ],
)
def test_seeds_of_something_else_are_refused(found, done, tmp_path, change, more, said):
    found["fails"] = 3
    assert speedrun(tmp_path).returncode == 1
    del found["fails"]
    found |= change
    ended = speedrun(tmp_path, *more)
    assert said in ended.stderr and "choose another --workdir" in ended.stderr
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1
    # Before another is run for nothing.
    assert done == [0, 1, 2, 3, 3][: 5 if 3 in change else 4]


def test_a_damaged_seed_and_a_cache_are_refused(found, tmp_path):
    assert speedrun(tmp_path, "--seeds=1").returncode == 0
    ended = speedrun(tmp_path, "--seeds=1", "--config.data.cache=elsewhere")
    assert "each seed has its own" in ended.stderr
    write_json(tmp_path / "seed-0" / "seed.json", {})
    ended = speedrun(tmp_path, "--seeds=1")
    assert f"seed.json is damaged, it lacks seed: remove {tmp_path / 'seed-0'}" in ended.stderr


def test_what_changed_is_against_the_record_that_is_kept(found, tmp_path):
    kept = FIRST._replace(config=tricks(multi30k.get_config().to_dict()))
    elsewhere = kept._replace(hardware="Other CPU, 2 cores", when="2026-02-03T00:00:00Z")
    for name, record in (("a", kept), ("b", elsewhere)):
        record.write(tmp_path / "kept" / f"{name}.json", None)
    speedrun(tmp_path / "w", "--config.training.steps=9000", "--config.seed=1")
    derived = read_json(tmp_path / "w" / "record.json")["derived"]
    assert derived["changes"] == {"training.steps": [STEPS, 9000]}
    assert derived["why_not"] == (
        "it took 103.0 s, and the record of 2026-01-03T00:00:00Z stands at 102.0 s"
    )


def test_a_process_that_fails_is_told_with_its_log(monkeypatch, tmp_path):
    monkeypatch.setattr(seeds.sys, "executable", "false")
    with pytest.raises(ValueError, match=rf"{tmp_path} failed, {tmp_path}/log.txt has all of it"):
        seeds.seconds_of(tmp_path)


def test_dev_chooses_the_checkpoint_and_of_one_alone_nothing_is_translated(monkeypatch, tmp_path):
    def of_dev(_, split, sections):
        assert split == "dev"
        scores = {20: 30.0, 30: 32.0, 40: 31.0}
        return [
            {"step": step, "metrics": {"bleu_moses_lower": {"score": score}}}
            for step, score in scores.items()
        ]

    monkeypatch.setattr(workdir, "checkpoint_steps", lambda _: [10, 20, 30, 40])
    monkeypatch.setattr(score, "score_checkpoints", of_dev)
    config = smallest_config(tmp_path, **{"decoding.average_checkpoints": 2})
    assert seed._chosen_step(tmp_path, read_sections(config)) == 30
    monkeypatch.setattr(score, "score_checkpoints", None)
    monkeypatch.setattr(workdir, "checkpoint_steps", lambda _: [30, 40])
    assert seed._chosen_step(tmp_path, read_sections(config)) == 40


@pytest.mark.slow
def test_a_seed_prepares_trains_chooses_and_scores(monkeypatch, tmp_path):
    monkeypatch.setattr(embedded_corpus, "_EVALUATION_PAIRS", 20)
    changes = {"decoding.max_extra_tokens": 1, "decoding.beam_size": 1, "evaluation.num_probes": 0}
    config = smallest_config(tmp_path / "cache", **changes)
    write_json(tmp_path / CONFIG_FILE, config.to_dict())
    seed.run(tmp_path)
    found = read_json(tmp_path / FOUND_FILE)
    assert found["step"] in (4, 8) and 0 <= found["bleu"] <= 100
    assert list(found["seconds"]) == ["prepare", "train", "choose", "score"]
    assert min(found["seconds"].values()) > 0
    assert found["pairs"]["train"] == 300 and found["pairs"]["test"] == 20
    assert found["hardware"].endswith(" cores") and found["text"]
    assert {"jax", "backend"} <= found["versions"].keys()
    kept = read_json(tmp_path / "run" / "scores" / "test.json")
    assert kept["metrics"]["bleu_moses_lower"]["score"] == found["bleu"]
    assert kept["step"] == found["step"]
