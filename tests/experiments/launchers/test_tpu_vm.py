"""Runs on Cloud TPU slices, with a stand-in for gcloud; nothing is left behind in any ending."""

import json
import re
import signal
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from experiments.launchers import gcloud, tpu_vm
from experiments.run import presence, record
from t2t_jax.training.metrics_file import read_metrics
from tests import slurm_tasks
from tests.experiments.launchers import counting_run, counting_there, fake_gcloud
from tests.experiments.sweeps import CONFIG, TABLE, prepared
from tests.runs.configs import smallest_config

SHARE = "10.0.0.2:/runs"
SEVERAL = {"type": "v5litepod-16", "share": SHARE}
PAIRS = {"project": "p", "zone": "z", "type": "v5litepod-8", "bucket": "gs://b/d", "spot": "true"}

FLEX = {"spot": "false", "provisioning_model": "flex-start"}


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """The directory of the cloud that stands in for one."""
    for name, value in fake_gcloud.install(tmp_path / "bin", tmp_path / "cloud").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COUNTING_SECONDS_A_STEP", "0.04")
    monkeypatch.setattr(tpu_vm, "_POLL_SECONDS", 0.1)
    for name in ("_SECONDS_BEFORE_RETRY", "_LONGEST_SECONDS_BEFORE_RETRY"):
        monkeypatch.setattr(tpu_vm, name, 0.01)
    yield tmp_path / "cloud"
    assert not list((tmp_path / "cloud").glob("slices/*")), "a slice was left behind"


def _plan(cloud, **plan):
    (cloud / "plan.json").write_text(json.dumps(plan))


def _launch(directory, **changes):
    request = gcloud.request_of(PAIRS | changes)
    return closing(tpu_vm.launch([directory], request=request))


def _verbs(cloud):
    """The commands in their order, without those of the bucket."""
    calls = [json.loads(line) for line in (cloud / "calls.jsonl").read_text().splitlines()]
    return [words[3] for words in calls if words[0] == "compute"]


def _in_bucket(cloud, directory):
    url = tpu_vm._url("b/d", record.read_run(directory))
    return cloud / "bucket" / url


def _write_checkpoint(directory, step):
    values = {"step": step, "sum": 0}
    (directory / "checkpoint.json").write_text(json.dumps(values))


def _processes(directory):
    """The steps that each process counted."""
    counted = {}
    for step, pid in counting_run.steps_of(directory):
        counted.setdefault(pid, []).append(step)
    return list(counted.values())


def test_a_run_is_done_on_a_slice_and_its_files_come_back(tmp_path, cloud):
    [directory] = prepared(tmp_path, "base")
    with _launch(directory) as events:
        assert [event.kind for event in events] == ["started", "finished"]
    verbs = _verbs(cloud)
    # First what an earlier command may have left is deleted, and seen to be gone.
    assert verbs[:3] == ["delete", "describe", "create"]
    assert verbs[3:8] == ["describe", "describe", "scp", "ssh", "ssh"]
    assert verbs[8] == "ssh"  # what is in the bucket has come before the run starts
    assert verbs[-2:] == ["delete", "describe"] and set(verbs[9:-2]) == {"describe"}
    assert _processes(directory) == [list(range(1, 41))]
    assert "scores" in json.loads((directory / "record.json").read_text())
    assert presence.read(directory) is None
    calls = (cloud / "calls.jsonl").read_text()
    for argument in (
        "--node-id=t2t-quickstart-base-seed-0-",
        "--accelerator-type=v5litepod-8",
        "--runtime-version=v2-alpha-tpuv5-lite",
        "--spot",
        "--worker=all",
        "JAX_COMPILATION_CACHE_DIR=gs://b/d/programs ",  # for the slice after a preemption
    ):
        assert argument in calls


def test_a_slice_that_is_taken_away_is_asked_for_again_and_the_run_goes_on(
    tmp_path, cloud, capsys, monkeypatch
):
    monkeypatch.setenv("COUNTING_SECONDS_A_STEP", "0.1")  # else it may end before it is taken away
    [directory] = prepared(tmp_path, "base")
    _plan(cloud, preempted=[["SIGTERM", 5], ["SIGKILL", 20]])
    with _launch(directory) as events:
        kinds = [event.kind for event in events]
    assert kinds[-1] == "finished"
    # A slice may be gone before a sign of its start has come by way of the bucket.
    assert 2 <= kinds.count("started") <= 3 == _verbs(cloud).count("create")
    told = capsys.readouterr().err
    assert "the run was told to stop by its machine; asking for another" in told
    assert "the slice was taken away, its state is SUSPENDED; asking for another" in told
    first, second, third = _processes(directory)
    assert second[0] == first[-1] + 1  # it had saved when it was told
    assert third[0] % 5 == 1 and 20 < third[0] <= second[-1] + 1
    values = json.loads((directory / "record.json").read_text())
    assert values["scores"] == counting_run.scores_of("base")


@pytest.mark.slow
def test_the_hosts_of_a_slice_do_one_run_together(tmp_path, cloud, monkeypatch):
    """With real training, on two slices: the first is taken away."""
    steps, log_steps = 200, 20
    config = smallest_config(
        tmp_path / "cache",
        **{
            "devices.data": 2,
            "training.steps": steps,
            "training.log_every_steps": log_steps,
            "training.checkpoint_every_steps": 40,
            "training.evaluate_every_steps": 10_000,
        },
    )
    [directory] = prepared(tmp_path, "base", config=config)
    monkeypatch.setenv("FAKE_GCLOUD_RUN", "-m experiments.run")
    hosts = slurm_tasks.environments(2)
    (cloud / "environments.json").write_text(json.dumps(hosts))
    _plan(cloud, preempted=[["SIGTERM", 40]])
    with _launch(directory, **SEVERAL) as events:
        assert [event.kind for event in events] == ["started", "started", "finished"]
    assert _verbs(cloud).count("create") == 2
    values = record.read_json(directory / "record.json")
    assert values["steps"] == steps
    metrics = read_metrics(directory / "metrics.jsonl")
    logged = [entry["step"] for entry in metrics if entry["split"] == "train"]
    assert logged == sorted(set(logged)), "steps were done twice"
    assert set(logged) >= set(range(log_steps, steps + 1, log_steps))
    log = (directory / "log.txt").read_text()
    assert log.count("train 200/200") == 1 and "record.json: PPL" in log
    of_other_host = (directory / "log-1.txt").read_text()
    assert "train" not in of_other_host and "PPL" not in of_other_host
    assert not list((cloud / "share/t2t_jax_runs").iterdir())
    calls = (cloud / "calls.jsonl").read_text().splitlines()
    on_first_alone = [call for call in calls if '"--worker=0"' in call]
    assert ["bucket restore" in call for call in on_first_alone] == [True, True, False]  # rm
    as_root = (cloud / "sudo.txt").read_text()
    mounts = f"timeout 120 mount -t nfs -o vers=4.1,actimeo=0,retry=0 {SHARE} "
    assert as_root.count(mounts) == 4  # two hosts, two slices
    assert as_root.count("install -d -m 777 ") == 1


def test_without_a_share_the_hosts_of_a_slice_work_in_the_bucket_itself(
    tmp_path, cloud, monkeypatch
):
    monkeypatch.setenv("COUNTING_SECONDS_A_STEP", "0.1")
    monkeypatch.setenv("FAKE_GCLOUD_RUN", counting_there.__file__)
    [directory] = prepared(tmp_path, "base")
    _plan(cloud, preempted=[["SIGTERM", 5]])
    several = {"type": "v5litepod-16"}
    with _launch(directory, **several) as events:
        happened = list(events)
    kinds = [event.kind for event in happened]
    assert kinds == ["started", "started", "finished"], happened
    first, second = _processes(directory)
    assert second[0] == first[-1] + 1 and second[-1] == 40
    assert presence.read(directory) is None
    # Each host's log, over both slices.
    for name, host in (("log.txt", "w-0"), ("log-1.txt", "w-1")):
        assert (directory / name).read_text().count(f"on {host}\n") == 2
    calls = (cloud / "calls.jsonl").read_text()
    assert "bucket run_there ~/run gs://b/d/" in calls
    assert "bucket restore " not in calls and not (cloud / "sudo.txt").exists()


def test_a_run_goes_on_where_it_was_begun_in_the_bucket_or_beside_it(tmp_path, cloud, monkeypatch):
    monkeypatch.setenv("FAKE_GCLOUD_RUN", counting_there.__file__)
    several = {"type": "v5litepod-16"}
    [directory] = prepared(tmp_path, "one_head")
    with _launch(directory) as events:
        assert list(events)[-1].reason == "exit code 1: no such thing"
    with _launch(directory, **several) as events:
        [failure] = events
    assert (
        "was started with one host, or with share= and can only continue that way" in failure.reason
    )
    with _launch(directory, **several, bucket="gs://b/other") as events:
        assert list(events)[-1].reason == "exit code 1: no such thing"
    for changes in ({}, {"share": SHARE, **several}):
        with _launch(directory, **changes, bucket="gs://b/other") as events:
            [failure] = events
        assert (
            "was started with several hosts without share= and can only continue" in failure.reason
        )
    assert _verbs(cloud).count("create") == 2


def test_what_an_earlier_try_left_in_the_bucket_is_not_taken_for_this_one(
    tmp_path, cloud, monkeypatch
):
    monkeypatch.setenv("FAKE_GCLOUD_RUN", counting_there.__file__)
    [directory] = prepared(tmp_path, "one_head")
    there = _in_bucket(cloud, directory)
    there.mkdir(parents=True)
    for name in ("failure.json", "running.json"):
        (there / name).write_text('{"error": "of another day"}')
    with _launch(directory, type="v5litepod-16") as events:
        *_, last = events
    assert last.reason == "exit code 1: no such thing"
    assert not (there / "running.json").exists()


def test_a_run_that_took_its_own_lock_for_anothers_gets_another_slice(
    tmp_path, cloud, monkeypatch, capsys
):
    monkeypatch.setenv("FAKE_GCLOUD_RUN", f"{counting_there.__file__} --is_taken")
    monkeypatch.setattr(tpu_vm, "_MOST_LOST_HOSTS", 1)
    with _launch(*prepared(tmp_path, "base"), type="v5litepod-16") as events:
        *_, last = events
    assert (last.kind, last.reason) == ("failed", "another command works on it")
    assert _verbs(cloud).count("create") == 2
    assert "a host was lost; asking for another" in capsys.readouterr().err


def test_hosts_that_cannot_write_the_bucket_do_not_start(tmp_path, cloud):
    [directory] = prepared(tmp_path, "base")
    _plan(cloud, refused="uploaded.json")
    with _launch(directory, type="v5litepod-16") as events:
        [failure] = events
    assert "gcloud: ERROR: " in failure.reason
    assert "bucket run_there" not in (cloud / "calls.jsonl").read_text()


def test_a_share_keeps_what_has_not_arrived_in_the_bucket(tmp_path, cloud, monkeypatch):
    [directory] = prepared(tmp_path, "one_head")
    url = tpu_vm._url("gs://b/d", record.read_run(directory))
    _plan(cloud, breaks_after="mount -t nfs")  # then it is not mounted again
    with _launch(directory, share=SHARE) as events:
        *_, last = events
    assert last.reason == "exit code 1: no such thing"
    [there] = (cloud / "share/t2t_jax_runs").iterdir()
    assert (there / "log.txt").exists()
    assert there.name.startswith("t2t-quickstart-one-head-seed-0-")
    _write_checkpoint(there, 5)  # not in the bucket
    # With the same settings there is the same place for it.
    run = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps(run | {"row": "base"}))
    (there.parent / f"{there.name}.of-a-broken-connection").mkdir()
    monkeypatch.setattr(tpu_vm, "_url", lambda *_: url)
    with _launch(directory, share=SHARE) as events:
        *_, last = events
    assert last.kind == "finished" and _processes(directory)[-1][0] == 6
    assert not list(there.parent.iterdir())


def test_a_share_keeps_a_finished_run_that_the_bucket_did_not_take(tmp_path, cloud):
    [directory] = prepared(tmp_path, "base")
    _plan(cloud, refused="record.json")
    with _launch(directory, share=SHARE) as events:
        *_, last = events
    assert last.reason == "it ended without a record.json"
    _plan(cloud)
    with _launch(directory, share=SHARE) as events:
        *_, last = events
    assert last.kind == "finished"
    assert _processes(directory) == [list(range(1, 41))]


@pytest.mark.parametrize("what", ["restore", "run"])
def test_a_slice_that_is_taken_away_before_the_start_is_asked_for_again(
    tmp_path, cloud, capsys, what
):
    _plan(cloud, taken_away_at=f"bucket {what} ")
    with _launch(*prepared(tmp_path, "one_head")) as events:
        *_, last = events
    assert last.reason == "exit code 1: no such thing"
    assert _verbs(cloud).count("create") == 2
    assert "the slice was taken away before the run started" in capsys.readouterr().err


def test_ctrl_c_lets_the_run_save_and_deletes_its_slice(tmp_path, cloud, monkeypatch):
    monkeypatch.setenv("COUNTING_SECONDS_A_STEP", "0.1")  # else it may end before it is stopped
    [directory] = prepared(tmp_path, "base")
    checkpoint = _in_bucket(cloud, directory) / "checkpoint.json"
    with _launch(directory) as events:
        assert next(events).kind == "started"
        deadline = time.monotonic() + 30
        while not checkpoint.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    [steps] = _processes(directory)
    saved = json.loads(checkpoint.read_text())
    assert saved["step"] == steps[-1] < 40
    assert not (directory / "failure.json").exists()


def test_a_machine_slow_to_answer_is_asked_again_and_a_run_that_fails_is_not(tmp_path, cloud):
    (cloud / "ssh_errors").write_text("2")
    with _launch(*prepared(tmp_path, "one_head")) as events:
        *_, last = events
    assert (last.kind, last.reason) == ("failed", "exit code 1: no such thing")
    # Twice in vain, then to install, to fetch what is in the bucket and to start.
    assert _verbs(cloud).count("ssh") == 5
    assert _verbs(cloud).count("create") == 1


def test_a_run_is_given_up_after_silence_also_where_gcloud_fails(tmp_path, cloud, monkeypatch):
    [directory] = prepared(tmp_path, "no_positions")  # a long one
    with _launch(directory) as events:
        assert next(events).kind == "started"
        _plan(cloud, describe_error="ERROR: UNAVAILABLE")
        monkeypatch.setattr(tpu_vm, "_SECONDS_OF_SILENCE", 1.0)
        [event] = events
    assert event.kind == "failed" and "no sign of life in gs://b/d/quickstart" in event.reason


def test_a_run_that_waits_for_ever_is_given_up(tmp_path, cloud, monkeypatch):
    # It writes no line, and its signs of life come.
    [directory] = prepared(tmp_path, "no_positions")
    with _launch(directory) as events:
        assert next(events).kind == "started"
        monkeypatch.setattr(tpu_vm, "_SECONDS_WITHOUT_A_LINE", 1.0)
        [event] = events
    assert event.kind == "failed"
    assert event.reason.startswith("gcloud: no new line in log.txt in gs://b/d/quickstart")


def test_who_waits_for_a_slice_does_not_lose_it_by_one_error(tmp_path, cloud, capsys):
    (cloud / "describe_errors").write_text("2")
    with _launch(*prepared(tmp_path, "one_head")) as events:
        *_, last = events
    assert last.reason == "exit code 1: no such thing"  # it ran, on the first slice
    assert _verbs(cloud).count("create") == 1
    assert capsys.readouterr().err.count("ERROR: UNAVAILABLE; trying again") == 2


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (
            {"create_error": "Hint: x\nERROR: RESOURCE_EXHAUSTED: Quota limit reached\nSee"},
            "gcloud: ERROR: RESOURCE_EXHAUSTED: Quota limit reached",
        ),
        ({"never_there": ["FAILED", "no capacity in zone z"]}, "no slice: no capacity in zone z"),
        ({"describe_error": "ERROR: UNAVAILABLE"}, "gcloud: ERROR: UNAVAILABLE"),
        ({"scp_error": "ERROR: scp broke"}, "gcloud: ERROR: scp broke"),
    ],
)
def test_without_a_slice_a_run_fails_in_the_words_of_gcloud(tmp_path, cloud, plan, reason):
    [directory] = prepared(tmp_path, "base")
    there = _in_bucket(cloud, directory)
    there.mkdir(parents=True)
    (there / "failure.json").write_text('{"error": "of an earlier command"}')
    _plan(cloud, **plan)
    with _launch(directory) as events:
        [event] = events
    assert event.kind == "failed" and reason in event.reason
    assert reason in (directory / "failure.json").read_text()
    assert _verbs(cloud)[-2:] == ["delete", "describe"]


def test_no_slice_is_asked_for_where_the_bucket_cannot_be_written(tmp_path, cloud):
    with _launch(*prepared(tmp_path, "base"), bucket="gs://denied") as events:
        [event] = events
    assert event.reason == "gcloud: ERROR: HTTPError 403: no access"
    assert _verbs(cloud) == []


def test_no_slice_is_asked_for_where_the_bucket_has_the_record(tmp_path, cloud):
    [directory] = prepared(tmp_path, "base")
    there = _in_bucket(cloud, directory)
    there.mkdir(parents=True)
    (there / "record.json").write_text("{}")
    with _launch(directory) as events:
        assert [event.kind for event in events] == ["finished"]
    # But a killed command may have left the one where it finished.
    assert _verbs(cloud) == ["delete", "describe"]


def test_the_seconds_of_a_run_count_from_its_own_start(tmp_path, monkeypatch):
    [directory] = prepared(tmp_path, "base")
    told = []
    run = tpu_vm._Run(directory, gcloud.request_of(PAIRS), None, told.append, threading.Event())
    monkeypatch.setattr(run, "_do", lambda: 1)
    time.sleep(0.5)  # the others before it
    run.do()
    assert [event.seconds < 0.5 for event in told] == [True]


def test_the_wait_for_a_slice_is_no_part_of_a_runs_seconds(tmp_path, monkeypatch):
    [directory] = prepared(tmp_path, "base")
    told = []
    run = tpu_vm._Run(directory, gcloud.request_of(PAIRS), None, told.append, threading.Event())

    def do():
        run._started -= 1_000
        run._sign = SimpleNamespace(started=time.time() - 10)
        return 1

    monkeypatch.setattr(run, "_do", do)
    run.do()
    assert [10 <= event.seconds < 20 for event in told] == [True]


def test_what_a_run_waited_for_is_forgotten_with_each_look_at_the_bucket(tmp_path, monkeypatch):
    [directory] = prepared(tmp_path, "base")
    run = tpu_vm._Run(directory, gcloud.request_of(PAIRS), None, print, threading.Event())
    (directory / "waiting.json").write_text("{}")
    monkeypatch.setattr(gcloud, "mirror", lambda *_, **__: None)
    run._mirror(None)
    assert not (directory / "waiting.json").exists()


def test_a_second_command_leaves_the_slice_of_the_first_alone(tmp_path, cloud):
    [directory] = prepared(tmp_path, "base")
    with presence.only_launcher(directory), _launch(directory) as events:
        [event] = events
    assert event.reason == f"another command has already launched the run in {directory}"
    assert not (directory / "failure.json").exists() and not (cloud / "calls.jsonl").exists()


@pytest.mark.parametrize(
    ("state", "exit_code", "changes", "reason"),
    [
        ("SUSPENDED", 1, {}, "its state is SUSPENDED"),
        ("ACTIVE", 1, SEVERAL, None),
        ("ACTIVE", -signal.SIGABRT, SEVERAL, "a host was lost"),
        ("ACTIVE", -signal.SIGABRT, {"share": SHARE}, None),  # there is no other host
        ("SUSPENDED", 0, {}, None),
    ],
)
def test_a_run_that_ends_for_a_machine_that_is_gone_goes_on_elsewhere(
    tmp_path, cloud, monkeypatch, state, exit_code, changes, reason
):
    request = gcloud.request_of(PAIRS | changes)
    run = tpu_vm._Run(*prepared(tmp_path, "base"), request, None, None, threading.Event())
    end = {"exit_code": exit_code}
    monkeypatch.setattr(run, "_fetch", lambda stop: None)
    monkeypatch.setattr(run, "_end_of", lambda attempt: end)
    monkeypatch.setattr(run._slice, "state", lambda stop: (state, ""))
    if reason is None:
        assert run._follow("try-0") == end
        return
    for _ in range(tpu_vm._MOST_LOST_HOSTS):
        with pytest.raises(tpu_vm._Preempted, match=reason):
            run._follow("try-0")
    if reason == "a host was lost":  # so often, it is the run that has them killed
        assert run._follow("try-0") == end


def test_a_slice_that_cannot_be_deleted_is_told_with_the_command(tmp_path, cloud, capsys):
    request = gcloud.request_of(PAIRS)
    run = tpu_vm._Run(*prepared(tmp_path, "base"), request, None, None, None)
    _plan(cloud, delete_error="ERROR: no such luck")
    assert run._delete() == "ERROR: no such luck"
    said = capsys.readouterr().err
    assert "it costs money: ERROR: no such luck" in said
    command = f"gcloud compute tpus queued-resources delete {run._slice.name} --force --project=p"
    assert command in said
    assert _verbs(cloud) == ["delete"] * tpu_vm._MOST_DELETIONS


def test_a_zone_that_is_not_there_is_told_at_once(tmp_path, cloud):
    _plan(cloud, delete_error="ERROR: PERMISSION_DENIED: Location z is not found")
    with _launch(*prepared(tmp_path, "base")) as events:
        [failure] = events
    assert "PERMISSION_DENIED: Location z is not found; cannot tell" in failure.reason
    assert _verbs(cloud) == ["delete"]


def test_a_run_is_not_known_to_have_ended_while_its_slice_may_be_there(
    tmp_path, cloud, monkeypatch
):
    left_out = []
    monkeypatch.setattr(gcloud, "mirror", lambda *_, without, stop: left_out.append(without))
    request = gcloud.request_of(PAIRS)
    run = tpu_vm._Run(*prepared(tmp_path, "base"), request, None, None, threading.Event())
    run._mirror(None)
    run._fetch_record()
    for name in ("record.json", "failure.json"):  # a diverged run is not begun again
        assert [bool(re.match(each, name)) for each in left_out] == [True, False]
    assert not any(re.match(each, "log.txt") for each in left_out)


def test_a_run_with_another_config_has_another_place_in_the_bucket():
    run = record.make_run(TABLE, TABLE.rows(CONFIG).named("base"), CONFIG, 0)
    url = tpu_vm._url("gs://b/d", run)
    assert re.fullmatch(r"gs://b/d/quickstart/base/seed-0-[0-9a-f]{8}", url)
    in_another_order = dict(reversed(run.config.items()))
    assert tpu_vm._url("gs://b/d", run._replace(config=in_another_order)) == url
    on_others = run.config | {"devices": run.config["devices"] | {"fsdp": 4}}
    assert tpu_vm._url("gs://b/d", run._replace(config=on_others)) == url  # it goes on
    longer = run.config | {"training": run.config["training"] | {"steps": 12345}}
    other = tpu_vm._url("gs://b/d", run._replace(config=longer))
    assert other != url and tpu_vm._slice_name(other) != tpu_vm._slice_name(url)


def test_names_of_slices_are_such_as_the_cloud_allows():
    name = tpu_vm._slice_name("gs://b/Sweeps/table3/C.d_model=1024/seed-0")
    assert name.startswith("t2t-table3-c-d-model-1024-seed-0-") and len(name) <= 61
    assert tpu_vm._slice_name("gs://b/table3/A.h=1/seed-0") != tpu_vm._slice_name(
        "gs://b/table3/A.h-1/seed-0"
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"share": "/mnt/share"}, "share=/mnt/share; an NFS 4.1 share is ADDRESS:/PATH"),
        ({"bucket": "b"}, "bucket=b; a bucket's address is gs://BUCKET/DIR"),
        ({"bucket": "gs://"}, "bucket=gs://; a bucket's address is gs://BUCKET/DIR"),
        ({"type": "v5e-8"}, "type=v5e-8; Cloud TPU calls it v5litepod-8"),
        ({"type": "v4"}, "type=v4; it is such as v5litepod-8"),
        ({"spot": "yes"}, "spot=yes; it is true or false"),
        ({"reserved": "true"}, "spot and reserved are two answers to whose capacity it is; give"),
        (
            {"provisioning_model": "flex-start", "max_run_duration": "4h"},
            "spot and provisioning_model are two answers",
        ),
        (FLEX, "provisioning_model=flex-start needs max_run_duration=..., such as 4h; at most 7d"),
        (
            FLEX | {"provisioning_model": "flex"},
            "provisioning_model=flex; gcloud has standard, spo",
        ),
        (FLEX | {"max_run_duration": "4 h"}, "max_run_duration=4 h; it is such as 4h, 90m or 1d12"),
        ({"labels": "team"}, "labels=team; they are NAME=VALUE;NAME=VALUE of small"),
        ({"tpye": "v4-8"}, "--tpu knows no tpye; it knows project, zone, type"),
    ],
)
def test_wrong_requests_are_told_in_a_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        gcloud.request_of(PAIRS | changes)
    with pytest.raises(ValueError, match="--tpu needs bucket=..."):
        gcloud.request_of({name: PAIRS[name] for name in ("project", "zone", "type")})


@pytest.mark.parametrize(
    ("changes", "alpha", "options"),
    [
        ({}, False, ["--spot"]),
        ({"spot": "false", "reserved": "true"}, False, ["--reserved"]),
        (
            FLEX | {"max_run_duration": "1d12h"},
            True,
            ["--provisioning-model=flex-start", "--max-run-duration=1d12h"],
        ),
        (
            FLEX | {"provisioning_model": "reservation-bound", "reservation": "projects/p/r"},
            True,
            ["--provisioning-model=reservation-bound", "--reservation=projects/p/r"],
        ),
        (
            {
                "service_account": "runs@p.iam.gserviceaccount.com",
                "network": "n",
                "subnetwork": "s",
                "labels": "team=nmt;by=ada",
            },
            False,
            [
                "--spot",
                "--service-account=runs@p.iam.gserviceaccount.com",
                "--network=n",
                "--subnetwork=s",
                "--labels=team=nmt,by=ada",
            ],
        ),
    ],
)
def test_capacity_account_network_and_labels_are_told_to_gcloud(
    monkeypatch, changes, alpha, options
):
    asked = []
    monkeypatch.setattr(gcloud, "call", lambda *words, stop=None: asked.append(words))
    request = gcloud.request_of(PAIRS | changes)
    gcloud.Slice(request, "name").create(threading.Event())
    [words] = asked
    place = ("compute", "tpus", "queued-resources", "create", "name")
    assert words[: 5 + alpha] == (("alpha",) * alpha) + place
    assert list(words[5 + alpha + 3 : -2]) == options


@pytest.mark.parametrize(
    ("does", "most_seconds", "says"),
    [("exec sleep 60", 0.3, "no answer for 0 minutes"), ("exit 3", 60.0, "exit code 3")],
)
def test_a_command_without_an_answer_is_named(does, most_seconds, says, tmp_path, monkeypatch):
    program = tmp_path / "gcloud"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(gcloud, "_MOST_SECONDS", most_seconds)
    with pytest.raises(gcloud.GcloudError, match=f"^gcloud storage ls: {says}$"):
        gcloud.call("storage", "ls")


@pytest.mark.parametrize(
    ("type_", "version"),
    [("v6e-8", "v2-alpha-tpuv6e"), ("v5p-8", "v2-alpha-tpuv5"), ("v4-8", "tpu-ubuntu2204-base")],
)
def test_the_runtime_follows_from_the_type(type_, version):
    assert gcloud.request_of(PAIRS | {"type": type_}).version == version


def test_a_run_is_not_over_before_its_slice_is_deleted(tmp_path, cloud, monkeypatch):
    [directory] = prepared(tmp_path, "base")
    was_over = []
    delete = gcloud.Slice.delete

    def noting(slice_):
        was_over.append((directory / "record.json").exists())
        delete(slice_)

    monkeypatch.setattr(gcloud.Slice, "delete", noting)
    with _launch(directory) as events:
        *_, last = events
    assert last.kind == "finished" and was_over == [False, False]
    # So that one which is killed in between is followed by one that deletes the slice.
    (directory / "record.json").unlink()
    with _launch(directory) as events:
        *_, last = events
    assert last.kind == "finished" and was_over == [False, False, False]


def test_a_run_whose_end_cannot_be_written_has_failed_all_the_same(tmp_path, cloud, monkeypatch):
    def ended(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(tpu_vm, "ended", ended)
    with _launch(*prepared(tmp_path, "one_head")) as events:
        *_, last = events
    assert (last.kind, last.reason) == ("failed", "OSError: the disk is full")
    assert "delete" in _verbs(cloud)
