"""Runs and prepared corpora in a bucket."""

import json
import os
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fsspec.config import conf
from jax.experimental.compilation_cache import compilation_cache

from experiments.run import __main__ as run_command
from experiments.run import presence, record
from experiments.run import run as run_module
from t2t_jax import buckets, hosts
from t2t_jax.data.corpora import embedded_corpus
from t2t_jax.data.prepare import prepared
from t2t_jax.locks import IsTakenError
from t2t_jax.runs import workdir as run_directory
from t2t_jax.runs.train import train
from t2t_jax.training.metrics_file import read_metrics
from tests import fake_bucket
from tests.cli.command import command
from tests.runs.configs import smallest, smallest_config

URL = "gs://bkt/runs/a"


@pytest.fixture
def bucket(monkeypatch):
    with fake_bucket.served(monkeypatch) as served:
        monkeypatch.setattr(buckets, "_copies", {})
        yield served


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_corpus, "_EVALUATION_PAIRS", 100)
        patch.setenv("T2T_JAX_CACHE", str(directory))
        yield directory


@pytest.fixture
def another_machine(monkeypatch):
    """Forgets all that is here of buckets."""
    return lambda: monkeypatch.setattr(buckets, "_copies", {})


def _of_steps(cache, steps):
    return smallest(cache, **{"training.schedule": "peak", "training.steps": steps})


def _trained(url, sections):
    with buckets.kept_up(lambda: True):
        return train(sections, buckets.directory_of(url))


def _losses(content):
    entries = [json.loads(line) for line in content.splitlines()]
    return [(entry["step"], entry["loss"]) for entry in entries if entry["split"] == "train"]


@pytest.mark.slow
def test_a_run_in_a_bucket_is_the_run_on_a_disk_and_goes_on_on_another_machine(
    bucket, cache, tmp_path, another_machine
):
    _trained(URL, _of_steps(cache, 8))
    first = bucket.names(f"{URL}/")
    for name in ("config.json", "vocabulary.model", "metrics.jsonl", "training.json"):
        assert f"{URL}/{name}" in first
    assert any(name.startswith(f"{URL}/checkpoints/8/params/") for name in first)
    assert any(name.startswith(f"{URL}/tensorboard/") for name in first)
    assert f"{URL}/{buckets.LOCK_FILE}" not in first  # it is given back
    # What was measured is there before the checkpoint that goes with it.
    writes = bucket.writes
    of_checkpoint = [i for i, name in enumerate(writes) if "/checkpoints/4/" in name]
    assert writes.index(f"{URL}/metrics.jsonl") < of_checkpoint[0]
    assert writes[-1] == f"{URL}/training.json"
    another_machine()
    longer = _of_steps(cache, 12)
    _trained(URL, longer)

    train(_of_steps(cache, 8), tmp_path / "w")
    train(longer, tmp_path / "w")
    on_disk = (tmp_path / "w/metrics.jsonl").read_bytes()
    assert _losses(bucket.read(f"{URL}/metrics.jsonl")) == _losses(on_disk)
    assert [step for step, _ in _losses(on_disk)] == [4, 8, 12]
    another_machine()
    here, there = (
        run_directory.load_trained(directory, longer)
        for directory in (tmp_path / "w", buckets.directory_of(URL))
    )
    jax.tree.map(np.testing.assert_array_equal, here.params, there.params)


def test_verbs_read_and_write_a_run_in_a_bucket(bucket, cache, another_machine):
    _trained(URL, _of_steps(cache, 8))
    another_machine()
    done = command("translate", f"--workdir={URL}", text="The dog sees the cat.\n")
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr
    another_machine()
    done = command("score", f"--workdir={URL}/", "--split=dev")
    assert done.returncode == 0, done.stderr
    assert json.loads(bucket.read(f"{URL}/scores/dev.json")) == json.loads(done.stdout)
    assert f"{URL}/translations/dev.txt" in bucket
    another_machine()
    done = command("score", "--workdir=gs://bkt/runs/none", "--split=dev")
    assert done.returncode == 1 and "gs://bkt/runs/none holds no run: t2t-jax train" in done.stderr


@pytest.mark.slow
def test_a_run_of_a_table_leaves_its_record_in_the_bucket(
    bucket, cache, another_machine, monkeypatch
):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")  # nothing is kept beyond this test
    config = smallest_config(cache).to_dict()
    directory = buckets.directory_of(f"{URL}/seed-0")
    record.write_run(directory, record.Run("a_table", "a_row", {}, 0, config, config))
    buckets.upload(directory)
    another_machine()
    run_command.main(["run", f"{URL}/seed-0"])
    values = json.loads(bucket.read(f"{URL}/seed-0/record.json"))
    assert values["steps"] == 8 and values["scores"]["test"]["bleu"] >= 0
    assert bucket.writes[-1] == f"{URL}/seed-0/record.json"  # when all else is there
    names = {name.removeprefix(f"{URL}/seed-0/") for name in bucket.names(f"{URL}/seed-0/")}
    assert not names & {"running.json", "failure.json", ".lock", ".train.lock"}
    # And nothing is done again: there is only its sign of life, for a moment.
    another_machine()
    num_writes = len(bucket.writes)
    run_command.main(["run", f"{URL}/seed-0"])
    assert set(bucket.writes[num_writes:]) <= {f"{URL}/seed-0/running.json"}
    assert f"{URL}/seed-0/running.json" not in bucket


def test_another_host_scores_what_the_first_has_trained(bucket, another_machine, monkeypatch):
    first = buckets.directory_of(URL)
    copies = dict(buckets._copies)
    another_machine()
    other = buckets.directory_of(URL)
    buckets._copies.update(copies)
    (first / "training.json").write_text("{}")
    for is_first, directory in ((True, first), (False, other)):
        monkeypatch.setattr(hosts, "is_first", lambda is_first=is_first: is_first)
        run_module._share(directory)
    assert (other / "training.json").read_text() == "{}"


def test_a_run_shows_its_sign_of_life_in_the_bucket_until_it_ends(bucket, monkeypatch):
    monkeypatch.setattr(presence, "_SECONDS_BETWEEN_BEATS", 0.01)
    directory = buckets.directory_of(URL)
    sign = f"{URL}/{presence.RUNNING_FILE}"
    with buckets.kept_up(lambda: True), presence.present(directory):
        deadline = time.monotonic() + 10
        while bucket.writes.count(sign) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert json.loads(bucket.read(sign))["pid"] == os.getpid()
    assert sign not in bucket


def test_a_bucket_that_refuses_measurements_for_a_moment_stops_no_run(
    bucket, cache, monkeypatch, capsys
):
    upload, failed = buckets.upload, []

    def fails_once(workdir):
        if not failed:
            failed.append(workdir)
            raise OSError("503: try again")
        upload(workdir)

    monkeypatch.setattr(buckets, "upload", fails_once)
    _trained(URL, _of_steps(cache, 8))
    said = f"measurements have not reached {URL}: 503: try again"
    assert said in capsys.readouterr().err
    assert [step for step, _ in _losses(bucket.read(f"{URL}/metrics.jsonl"))] == [4, 8]


def test_what_no_verb_reads_is_not_fetched(bucket):
    for name in ("profile/plugins/x.pb", "tensorboard/x", "nonfinite/2/state/d/0", "config.json"):
        bucket.write(f"{URL}/{name}", b"{}")
    directory = buckets.directory_of(URL)
    assert [path.name for path in directory.iterdir()] == ["config.json"]


@pytest.mark.slow
def test_a_damaged_checkpoint_and_one_that_was_begun_are_passed_over(
    bucket, cache, another_machine, capsys
):
    _trained(URL, _of_steps(cache, 4))
    _trained(URL, _of_steps(cache, 8))
    bucket.copy(f"{URL}/checkpoints/8/", f"{URL}/checkpoints/9/")
    bucket.delete(f"{URL}/checkpoints/9/commit_success.txt")
    arrays = [name for name in bucket.names(f"{URL}/checkpoints/8/params/") if "/d/" in name]
    for name in arrays:
        bucket.write(name, b"\0" * len(bucket.read(name)))
    another_machine()
    _trained(URL, _of_steps(cache, 12))
    assert "going on from that of step 4" in capsys.readouterr().err
    assert bucket.names(f"{URL}/checkpoints_damaged/8/")
    assert run_directory.checkpoint_steps(buckets.directory_of(URL)) == [4, 8, 12]
    steps = [entry["step"] for entry in read_metrics(buckets.directory_of(URL) / "metrics.jsonl")]
    assert steps[-1] == 12 and steps == sorted(steps)


def test_a_lock_in_a_bucket_lets_one_process_in(bucket, monkeypatch):
    workdir = buckets.directory_of(URL)
    with run_directory.only_training(workdir):
        content = json.loads(bucket.read(f"{URL}/.train.lock"))
        assert content["pid"] == os.getpid()
        with pytest.raises(IsTakenError, match=rf"process {os.getpid()} on .* trains in {URL}; if"):
            with run_directory.only_training(workdir, patience=0.0):
                pass
    assert f"{URL}/.train.lock" not in bucket
    with run_directory.only_training(workdir, patience=0.0):
        pass


def test_who_has_the_lock_sees_what_its_last_owner_has_left(bucket):
    bucket.write(f"{URL}/failure.json", b"{}")
    bucket.write(f"{URL}/run.json", b"as asked before")
    workdir = buckets.directory_of(URL)
    (workdir / "failure.json").unlink()
    (workdir / "run.json").write_text("as asked now")
    (workdir / "scores").mkdir()
    (workdir / "scores/test.json").write_text("as asked now")
    bucket.write(f"{URL}/scores/test.json", b"of the last owner")
    bucket.write(f"{URL}/scores/dev.json", b"of the last owner")
    with run_directory.only_training(workdir):
        assert (workdir / "scores/dev.json").read_text() == "of the last owner"
        assert (workdir / "run.json").read_text() == "as asked now"
        assert (workdir / "scores/test.json").read_text() == "as asked now"
    buckets.upload(workdir)
    assert bucket.read(f"{URL}/run.json") == b"as asked now"
    assert f"{URL}/failure.json" not in bucket


def test_what_others_have_written_is_listed(bucket):
    """gcsfs would list a directory once, and show the same ever after."""
    buckets.directory_of(URL)
    assert conf["gs"]["use_listings_cache"] is False


def test_two_that_come_at_once_are_told_apart_by_the_bucket(bucket, monkeypatch):
    monkeypatch.setattr(buckets, "_SECONDS_OF_SILENCE", 1000.0)
    locks = [buckets._Lock(URL) for _ in range(8)]
    taken = []

    def take(lock):
        try:
            lock.take("trains", 0.0, print)
            taken.append(lock)
        except IsTakenError:
            pass

    threads = [threading.Thread(target=take, args=(lock,)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1


def test_the_lock_of_a_killed_process_is_taken_over_and_that_of_a_living_one_is_not(
    bucket, monkeypatch
):
    monkeypatch.setattr(buckets, "_SECONDS_OF_SILENCE", 1.0)
    monkeypatch.setattr(buckets, "_SECONDS_BETWEEN_BEATS", 0.05)
    buckets._Lock(URL).take("trains", 0.0, print)  # and is killed
    workdir, told = buckets.directory_of(URL), []
    started = time.monotonic()
    with buckets.locked(workdir, "trains", patience=10.0, tell=told.append):
        assert time.monotonic() - started >= 1.0 and "waiting for it" in told[0]
        with pytest.raises(IsTakenError):  # it is renewed
            buckets._Lock(URL).take("trains", 3.0, print)


def test_who_was_taken_for_gone_ends(bucket, monkeypatch, capsys):
    ended = []
    monkeypatch.setattr(buckets.os, "_exit", lambda code: ended.append(code) or stop.set())
    monkeypatch.setattr(buckets, "_SECONDS_BETWEEN_BEATS", 0.01)
    lock, stop = buckets._Lock(URL), threading.Event()
    lock.take("trains", 0.0, print)
    bucket.write(f"{URL}/.train.lock", b'{"owner": "another"}')
    lock.renew_until(stop)
    assert ended == [os.EX_TEMPFAIL]
    assert f"another process has taken over {URL}/.train.lock" in capsys.readouterr().err
    lock.give_back()
    assert f"{URL}/.train.lock" in bucket  # it is not ours


def test_a_renewal_whose_answer_was_lost_does_not_end_a_run(bucket, monkeypatch):
    lock = buckets._Lock(URL)
    lock.take("trains", 0.0, print)
    before = lock._generation
    lock._write(before)
    lock._generation = before  # as if nothing had been heard
    assert not lock._write(before) and lock._is_ours()
    assert lock._write(lock._generation)


def test_a_prepared_corpus_comes_to_each_machine_once(bucket, cache, tmp_path, monkeypatch):
    config = smallest("gs://bkt/cache").data
    seen = {}
    for machine in ("one", "two", "two"):
        monkeypatch.setenv("HOME", str(tmp_path / machine))
        lines = []
        seen[machine] = prepared.prepare(config, lines.append), lines
    names = bucket.names("gs://bkt/cache/")
    assert {name.split("/")[-1] for name in names} >= {"manifest.json", "vocabulary.model"}
    assert names.count(bucket.writes[-1]) == 1 and bucket.writes[-1].endswith("/manifest.json")
    assert len(bucket.writes) == len(names)  # once, by the first machine
    (one, of_one), (two, of_two) = seen["one"], seen["two"]
    assert of_one[-1].startswith("prepared data sent to gs://bkt/cache/")
    assert not any("fetched" in line for line in of_two)  # the third time it was there
    assert one.fingerprint == two.fingerprint and one.directory != two.directory
    assert two.directory.is_relative_to(tmp_path / "two")
    for file in one.directory.iterdir():
        if file.name == "checked.json":  # of this machine's files
            continue
        assert file.read_bytes() == (two.directory / file.name).read_bytes()


@pytest.fixture
def halved(bucket, tmp_path, monkeypatch):
    """Prepares in a bucket, deletes one file there, and goes to another machine."""
    config = smallest("gs://bkt/cache").data

    def halve(without):
        monkeypatch.setenv("HOME", str(tmp_path / "one"))
        prepared.prepare(config, lambda _: None)
        bucket.delete(next(name for name in bucket.names() if name.endswith(without)))
        monkeypatch.setenv("HOME", str(tmp_path / "two"))
        return config

    return halve


def test_a_damaged_corpus_in_a_bucket_is_told_by_its_address(halved, cache):
    config = halved(without="vocabulary.model")
    with pytest.raises(ValueError, match="gs://bkt/cache/.* is damaged: delete it and prepare"):
        prepared.prepare(config, lambda _: None)


def test_half_a_corpus_in_a_bucket_is_not_used(halved, bucket, cache):
    config = halved(without="manifest.json")
    lines = []
    prepared.prepare(config, lines.append)
    assert not any("fetched" in line for line in lines)
    assert any(name.endswith("manifest.json") for name in bucket.names())


def test_jax_keeps_programs_in_a_bucket(bucket):
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = [getattr(jax.config, name) for name in names]
    try:
        for name, value in zip(names, ("gs://bkt/programs", 0.0), strict=True):
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        jax.jit(lambda x: jnp.sin(x) * 3.25)(jnp.arange(7.0)).block_until_ready()
    finally:
        for name, value in zip(names, before, strict=True):
            jax.config.update(name, value)
        compilation_cache.reset_cache()
    assert any(name.startswith("gs://bkt/programs/jit_") for name in bucket.names())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["train", "--config=configs/tiny.py", "--workdir=s3://b/w"],
            "--workdir=s3://b/w must be a path of this machine: only --workdir of",
        ),
        (
            ["train", "--config=configs/tiny.py", "--workdir=gs://bkt"],
            "--workdir=gs://bkt is a whole bucket; name a directory in it: gs://bkt/RUN",
        ),
        (
            ["train", "--config=configs/tiny.py", "--workdir=w", "--init=hf:gs://bkt/m"],
            "--init=hf:gs://bkt/m must be a path of this machine",
        ),
        (
            ["prepare", "--config=configs/tiny.py", "--config.data.cache=s3://b/c"],
            "data.cache=s3://b/c must be a path of this machine",
        ),
        (
            [
                *("prepare", "--config=configs/tiny.py", "--config.data.source=text"),
                "--config.data.directory=gs://bkt/text",
            ],
            "data.directory=gs://bkt/text must be a path of this machine",
        ),
        (["compare", "gs://bkt/one", "az://b"], "W2=az://b must be a path of this machine"),
    ],
)
def test_addresses_that_cannot_be_are_refused_in_a_sentence(
    bucket, cache, tmp_path, monkeypatch, arguments, sentence
):
    done = command(*arguments)
    assert done.returncode == 1 and sentence in done.stderr
    assert not Path("gs:").exists() and not Path("s3:").exists()


def test_without_gcsfs_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(buckets, "_copies", {})
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    monkeypatch.setattr("etils.epath.gpath._is_tf_installed", lambda: False)
    with pytest.raises(
        ValueError, match=r"gs://bkt/w needs gcsfs, .*: pip install .* -e .\.\[gcs\]"
    ):
        buckets.directory_of("gs://bkt/w")
