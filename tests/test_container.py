"""The image and the JobSet: what they name exists, and what they set is read."""

import inspect
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from experiments.launchers import tpu_vm
from t2t_jax import clusters
from tests.cli.command import command

REPOSITORY = Path(__file__).parents[1]
# What Docker knows; of others it refuses to build.
_INSTRUCTIONS = {
    *("FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "STOPSIGNAL", "ENTRYPOINT", "CMD"),
}


@pytest.fixture(scope="module")
def instructions():
    """Of the Dockerfile, each with its words."""
    lines = (REPOSITORY / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]


@pytest.fixture(scope="module")
def job_set():
    return yaml.safe_load((REPOSITORY / "docs/jobset.yaml").read_text())


def project():
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def test_the_image_is_made_of_files_that_exist_with_the_tested_releases(instructions):
    assert {name for name, _ in instructions} <= _INSTRUCTIONS and instructions[0][0] == "FROM"
    ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()
    copied = set()
    for name, words in instructions:
        if name == "COPY":
            *sources, _ = words.split()
            copied |= set(sources)
    for source in copied:
        assert (REPOSITORY / source).exists(), source
        assert f"!{source}" in ignored, f".dockerignore leaves {source} out"
    assert copied >= {"t2t_jax", "configs", "experiments", "constraints.txt", "pyproject.toml"}
    runs = [shlex.split(words) for name, words in instructions if name == "RUN"]
    installs = [words for words in runs if "install" in words]
    assert installs and all(
        "--constraint" in words or "--no-deps" in words for words in installs
    ), "a release that was not tested could be installed"


def test_images_and_slices_have_the_python_that_everything_is_tested_with(instructions):
    """The oldest: constraints.txt has other releases for later ones."""
    [base] = [words for name, words in instructions if name == "FROM"]
    in_image = re.findall(r"python:(\d+\.\d+)-", base)
    by_hand = (REPOSITORY / "docs/CLUSTERS.md").read_text()
    on_slices = [re.findall(r"--python (\d\S*)", text) for text in (by_hand, tpu_vm._INSTALL)]
    assert project()["requires-python"] == f">={in_image[0]}"
    assert [in_image, *on_slices] == [in_image] * 3


def test_the_image_has_an_extra_that_there_is(instructions):
    arguments = dict(words.partition("=")[::2] for name, words in instructions if name == "ARG")
    extras = project()["optional-dependencies"]
    assert arguments["EXTRA"] in extras
    for name in ("tpu", "cuda", "cuda12"):
        assert "t2t-jax[gcs]" in extras[name]  # for the bucket of the JobSet
    [entry] = [words for name, words in instructions if name == "ENTRYPOINT"]
    assert yaml.safe_load(entry)[0] in project()["scripts"]


def test_the_pods_of_the_job_set_do_a_run_that_can_be_and_find_each_other(job_set, monkeypatch):
    [job] = job_set["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    [container] = spec["template"]["spec"]["containers"]
    assert job["replicas"] == 1 and spec["completionMode"] == "Indexed"
    # All flags and keys are known: what is refused is what comes after them.
    done = command(*container["args"], "--num_processes=4")
    assert done.stderr.strip().splitlines()[-1] == (
        "t2t-jax train: --coordinator, --num_processes and --process_id go together"
    )
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
    place = clusters.place_in_kubernetes()
    assert place is not None
    assert place.num_processes == spec["completions"] == spec["parallelism"]
    # JobSet's names: of itself, the job, its number and the pod's, in a service of its own name.
    name = job_set["metadata"]["name"]
    assert place.coordinator.split(":")[0] == f"{name}-{job['name']}-0-0.{name}"
    ports = [port["containerPort"] for port in container["ports"]]
    assert int(place.coordinator.split(":")[1]) in ports and clusters._JAX_PORT in ports
    read = inspect.getsource(clusters.place_in_kubernetes)
    for variable in container["env"]:
        name = variable["name"]
        assert name in read or name == "JAX_COMPILATION_CACHE_DIR"
    topology = spec["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"]
    rows, columns = map(int, topology.split("x"))
    chips = container["resources"]["limits"]["google.com/tpu"]
    assert rows * columns == chips * spec["completions"]
