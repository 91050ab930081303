"""A run's directory in a bucket, with a stand-in for gcloud."""

import json
import signal
import sys

import pytest

from experiments.launchers import bucket, gcloud
from tests.experiments.launchers import fake_gcloud

URL = "gs://b/run"


@pytest.fixture
def there(tmp_path, monkeypatch):
    """Where the bucket keeps the run."""
    for name, value in fake_gcloud.install(tmp_path / "bin", tmp_path / "cloud").items():
        monkeypatch.setenv(name, value)
    return tmp_path / "cloud" / "bucket" / "b" / "run"


def _write(directory, name, text="{}"):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _names(directory):
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_what_was_copied_comes_back_without_what_was_being_written(tmp_path, there):
    here = tmp_path / "here"
    for name in ("run.json", "checkpoints/10/a", "checkpoints/20.orbax-checkpoint-tmp/a", ".lock"):
        _write(here, name)
    assert bucket._upload(here, URL)
    assert _names(there) == {"run.json", "checkpoints/10/a", "uploaded.json"}
    bucket.restore(tmp_path / "elsewhere", URL)
    assert _names(tmp_path / "elsewhere") == _names(there)


def test_an_old_checkpoint_goes_when_the_new_one_has_arrived(tmp_path, there):
    here = tmp_path / "here"
    _write(here, "checkpoints/10/a")
    bucket._upload(here, URL)
    (here / "checkpoints/10/a").unlink()
    (here / "checkpoints/10").rmdir()
    _write(here, "checkpoints/20/a")
    bucket._upload(here, URL)
    assert _names(there) == {"checkpoints/20/a", "uploaded.json"}
    calls = (there.parents[2] / "calls.jsonl").read_text().splitlines()
    deletes = ["--delete-unmatched-destination-objects" in call for call in calls[-3:]]
    assert deletes == [False, False, True]


def test_half_a_checkpoint_is_not_restored(tmp_path, there):
    _write(there, "run.json")
    _write(there, "checkpoints/10/a")
    _write(there, "checkpoints/20/half")
    _write(there, "uploaded.json", json.dumps({"checkpoints": ["10"]}))
    _write(there, "ended.json", json.dumps({"attempt": "an earlier one", "exit_code": 1}))
    bucket.restore(tmp_path / "here", URL)
    assert _names(tmp_path / "here") == {"run.json", "checkpoints/10/a", "uploaded.json"}


def test_a_run_whose_only_checkpoint_is_half_there_is_trained_anew(tmp_path, there):
    for name in ("run.json", "training.json", "checkpoints/20/half", "uploaded.json"):
        _write(there, name)
    bucket.restore(tmp_path / "here", URL)
    assert _names(tmp_path / "here") == {"run.json", "uploaded.json"}


def test_a_failure_of_another_day_is_not_taken_for_one_of_this_try(tmp_path, there):
    here = tmp_path / "here"
    for _ in range(2):  # on a new machine, and on one that has the run
        _write(there, "run.json")
        _write(there, "failure.json", '{"error": "of another day"}')
        bucket.restore(here, URL)
        assert "failure.json" not in _names(here) | _names(there)


def test_a_directory_that_outlives_its_slice_goes_on_as_it_is_unless_another_has(tmp_path, there):
    here, other = tmp_path / "here", tmp_path / "other"
    _write(there, "run.json")
    bucket.restore(here, URL)
    for name in ("checkpoints/10/a", "ended.json"):
        _write(here, name)  # none of it was copied
    _write(there, "run.json", '{"devices": 4}')
    bucket.restore(here, URL)
    assert _names(here) == {"run.json", "uploaded.json", "checkpoints/10/a"}
    assert json.loads((here / "run.json").read_text()) == {"devices": 4}

    bucket.restore(other, URL)
    _write(other, "checkpoints/20/b")
    assert bucket._upload(other, URL)
    bucket.restore(here, URL)
    assert _names(here) == {"run.json", "uploaded.json", "checkpoints/20/b"}


def test_what_was_restored_by_half_is_restored_anew(tmp_path, there, monkeypatch):
    """Also by a second command, while the first is at it still."""
    _write(there, "run.json")
    _write(there, "checkpoints/10/a")
    _write(there, "uploaded.json", json.dumps({"checkpoints": ["10"]}))
    here, mirror, nested = tmp_path / "here", gcloud.mirror, []

    def slow(source, destination, **options):
        mirror(source, destination, **options)
        if "without" in options and not nested and destination.startswith(str(here)):
            nested.append(destination)
            bucket.restore(here, URL)
            assert _names(here) == {"run.json", "uploaded.json", "checkpoints/10/a"}
            raise gcloud.GcloudError("ERROR: 503")

    with monkeypatch.context() as patch, pytest.raises(gcloud.GcloudError):
        patch.setattr(gcloud, "mirror", slow)
        bucket.restore(here, URL)
    assert _names(here) == {"run.json", "uploaded.json", "checkpoints/10/a"}
    assert json.loads((there / "uploaded.json").read_text())["checkpoints"] == ["10"]


def test_another_host_than_the_first_does_the_run_and_leaves_the_rest_to_it(
    tmp_path, there, monkeypatch, at_once
):
    monkeypatch.setattr("socket.gethostname", lambda: "t1v-n-0123abcd-w-12")
    here = tmp_path / "here"
    _write(here, "failure.json", "of the first host")
    program = "print('hello'); raise SystemExit(3)"
    assert bucket.run(here, URL, "try-0", (sys.executable, "-c", program)) == 3
    assert _names(here) == {"failure.json", "log-12.txt"}
    assert (here / "log-12.txt").read_text() == "hello\n"
    assert not there.exists()


def test_a_bucket_that_does_not_answer_stops_no_run(tmp_path, there, capsys):
    _write(tmp_path / "here", "run.json")
    assert not bucket._upload(tmp_path / "here", "gs://denied/run")
    assert "not copied to gs://denied/run: ERROR: HTTPError 403" in capsys.readouterr().err
    with pytest.raises(gcloud.GcloudError, match="matches nothing"):
        bucket.restore(tmp_path / "absent", "gs://b/absent")


@pytest.fixture
def at_once(monkeypatch):
    """The last tries without pauses; the signals of this process stay as they are."""
    monkeypatch.setattr(bucket, "_SECONDS_BETWEEN_LAST_TRIES", 0)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _failing(monkeypatch, name, file_name, num_errors):
    """Has a function of gcloud fail so many times where it is to write this file."""
    does = getattr(gcloud, name)
    errors = ["ERROR: 503"] * num_errors

    def called(source, destination, **options):
        if destination.endswith(file_name) and errors:
            raise gcloud.GcloudError(errors.pop())
        does(source, destination, **options)

    monkeypatch.setattr(gcloud, name, called)


def _run(directory):
    _write(directory, "run.json")
    return bucket.run(directory, URL, "try-0", (sys.executable, "-c", "raise SystemExit(3)"))


@pytest.mark.parametrize("num_errors", [0, 4])
def test_the_end_is_told_as_soon_as_the_bucket_answers(
    tmp_path, there, monkeypatch, at_once, num_errors
):
    _failing(monkeypatch, "copy", "ended.json", num_errors)
    assert _run(tmp_path / "here") == 3
    told = json.loads((there / "ended.json").read_text())
    assert told == {"attempt": "try-0", "exit_code": 3, "has_arrived": True}


def test_the_end_is_told_even_where_the_files_do_not_arrive(tmp_path, there, monkeypatch, at_once):
    _failing(monkeypatch, "mirror", "run", 100)
    assert _run(tmp_path / "here") == 3
    assert _names(there) == {"ended.json"}
    assert not json.loads((there / "ended.json").read_text())["has_arrived"]


def test_a_bucket_that_never_answers_changes_no_exit_code(tmp_path, there, monkeypatch, at_once):
    _failing(monkeypatch, "copy", "ended.json", 100)
    assert _run(tmp_path / "here") == 3
    assert "ended.json" not in _names(there)


def test_a_checkpoint_that_comes_while_others_are_copied_is_not_whole_there(
    tmp_path, there, monkeypatch
):
    here, mirror = tmp_path / "here", gcloud.mirror
    _write(here, "checkpoints/10/a")

    def slow(source, destination, **options):
        mirror(source, destination, **options)
        _write(here, "checkpoints/20/a")

    monkeypatch.setattr(gcloud, "mirror", slow)
    assert bucket._upload(here, URL)
    assert json.loads((there / "uploaded.json").read_text()) == {"checkpoints": ["10"]}
