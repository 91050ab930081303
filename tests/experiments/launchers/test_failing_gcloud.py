"""Whatever gcloud fails at, however often, no slice is left behind: a cloud in this process."""

import json
import random
from contextlib import closing
from pathlib import Path

import pytest

from experiments.launchers import gcloud, tpu_vm
from experiments.run import record
from tests.experiments.sweeps import prepared

PAIRS = {"project": "p", "zone": "z", "type": "v5litepod-8", "bucket": "gs://b/d", "spot": "true"}
# Calls of a run for which all goes well; each of them fails in turn.
_CALLS_OF_A_RUN = 23


class Cloud:
    """Slices with their states, and what a run leaves in the bucket.

    `fails(number, words)` says what becomes of each call: "" for nothing, "before" and "after" for
    an error without and with its effect, "late" for a creation that is told as failed and comes
    later, "rubbish" for an answer that is none, and "gone" where the slice is taken away.
    """

    def __init__(self, fails):
        self._fails = fails
        self._late = {}  # name -> calls until it is there
        self._run = None  # attempt, and states that are asked for until it ends
        self.slices = {}
        self.calls = []

    def call(self, *words, stop=None):
        if stop is not None and stop.is_set():
            raise gcloud.Stopped
        self.calls.append(words)
        for name in list(self._late):
            self._late[name] -= 1
            if not self._late[name]:
                del self._late[name]
                self.slices.setdefault(name, "CREATING")
        kind = self._fails(len(self.calls), words)
        if kind == "before":
            raise gcloud.GcloudError("ERROR: UNAVAILABLE")
        if kind == "late" and words[3] == "create":
            self._late[words[4]] = 4
            raise gcloud.GcloudError("ERROR: DEADLINE_EXCEEDED")
        if kind == "gone":
            self.slices = dict.fromkeys(self.slices, "SUSPENDED")
        answer = self._do(words)
        if kind in ("after", "late"):
            raise gcloud.GcloudError("ERROR: connection reset")
        return "<html>" if kind == "rubbish" else answer

    def _do(self, words):
        if words[0] == "storage":
            return self._storage(words)
        if words[2] == "tpu-vm":
            name = words[4] if words[3] == "ssh" else words[5].rstrip(":")
            if self.slices.get(name) != "ACTIVE":
                raise gcloud.GcloudError("ERROR: there is no such machine")
            start = next((word for word in words if "bucket run " in word), None)
            if start is not None and self._run is None:
                attempt = next(word for word in start.split() if word.startswith(f"{name}-"))
                self._run = [attempt, 3]
            return ""
        verb, name = words[3], words[4]
        if verb == "create":
            if name in self.slices:
                raise gcloud.GcloudError("ERROR: ALREADY_EXISTS")
            self.slices[name], self._run = "CREATING", None
            return ""
        if name not in self.slices:
            raise gcloud.GcloudError("ERROR: NOT_FOUND: Resource was not found")
        if verb == "delete":
            # It ends a moment later, as the real one does.
            if self.slices[name] == "DELETING":
                del self.slices[name]
            else:
                self.slices[name] = "DELETING"
            return ""
        following = {"CREATING": "WAITING_FOR_RESOURCES", "WAITING_FOR_RESOURCES": "ACTIVE"}
        self.slices[name] = following.get(self.slices[name], self.slices[name])
        if self._run is not None and self.slices[name] == "ACTIVE":
            self._run[1] -= 1
        return json.dumps({"state": {"state": self.slices[name]}})

    def _storage(self, words):
        directory = Path(words[3])
        if words[1] == "rsync" and self._run is not None and self._run[1] <= 0:
            run = record.read_json(directory / "run.json")
            (directory / "record.json").write_text(json.dumps(run | {"scores": {}}))
            end = {"attempt": self._run[0], "exit_code": 0, "has_arrived": True}
            (directory / "ended.json").write_text(json.dumps(end))
        return ""


@pytest.fixture
def launched(tmp_path, monkeypatch):
    """Does a run on a cloud that fails as is said; the cloud, and the events."""
    monkeypatch.setattr(tpu_vm, "_POLL_SECONDS", 0.0)
    for name in ("_SECONDS_BEFORE_RETRY", "_LONGEST_SECONDS_BEFORE_RETRY"):
        monkeypatch.setattr(tpu_vm, name, 0.0)
    monkeypatch.setattr(tpu_vm, "_SECONDS_OF_SILENCE", 5.0)
    archive = tmp_path / "archive"
    archive.touch()
    code = tpu_vm._Code(archive, "c0ffee")
    monkeypatch.setattr(tpu_vm, "_code", lambda: tpu_vm.contextlib.nullcontext(code))
    request = gcloud.request_of(PAIRS)
    number = iter(range(1000))

    def launch(fails):
        [directory] = prepared(tmp_path / str(next(number)), "base")
        cloud = Cloud(fails)
        monkeypatch.setattr(gcloud, "call", cloud.call)
        with closing(tpu_vm.launch([directory], request=request)) as events:
            return cloud, list(events)

    return launch


def test_where_nothing_fails_the_run_is_finished(launched):
    cloud, events = launched(lambda *_: "")
    assert events[-1].kind == "finished" and not cloud.slices
    assert len(cloud.calls) == _CALLS_OF_A_RUN


@pytest.mark.parametrize("kind", ["before", "after", "late", "rubbish", "gone"])
def test_each_call_in_turn_fails_and_no_slice_is_left(launched, kind):
    for failing in range(1, _CALLS_OF_A_RUN + 3):
        cloud, events = launched(lambda number, _, failing=failing: kind * (number == failing))
        assert not cloud.slices, (failing, cloud.calls)
        assert events[-1].kind in ("finished", "failed")
        creations = [words for words in cloud.calls if words[3] == "create"]
        assert len(creations) <= 2


@pytest.mark.parametrize("verb", ["create", "describe", "delete", "ssh", "scp"])
def test_one_command_fails_many_times_and_no_slice_is_left(launched, verb):
    """All of its first dozen, which is more than the patience for others."""
    left = 12

    def fails(number, words):
        nonlocal left
        if words[3] != verb or not left:
            return ""
        left -= 1
        return "before"

    cloud, events = launched(fails)
    assert not cloud.slices and events[-1].kind in ("finished", "failed")
    if verb == "delete":
        assert events[-1].kind == "finished"


@pytest.mark.parametrize("seed", range(100))
def test_calls_fail_at_random_and_no_slice_is_left(launched, seed):
    draw = random.Random(seed)
    rate = draw.choice([0.1, 0.3, 0.6])

    def fails(number, words):
        if draw.random() > rate:
            return ""
        return draw.choice(["before", "after", "late", "rubbish", "gone"])

    cloud, events = launched(fails)
    assert not cloud.slices, cloud.calls
    assert events[-1].kind in ("finished", "failed")
