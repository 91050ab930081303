"""What is installed: the package alone, with the releases it was tested with."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    # Of a copy: setuptools builds beneath the sources, and packs what earlier builds left there.
    sources = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, sources)
    for name in ("t2t_jax", "configs", "experiments"):
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(REPOSITORY / name, sources / name, ignore=ignored)
    _pip("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={sources}", str(sources))
    return next(sources.glob("*.whl"))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    data = ("explain/page_files/*", "plan/prices.json")
    files = [path for glob in ("**/*.py", *data) for path in REPOSITORY.glob(f"t2t_jax/{glob}")]
    package = {str(path.relative_to(REPOSITORY)) for path in files}
    assert {name for name in names if ".dist-info/" not in name} == package


def test_an_environment_that_has_the_wheel_says_that_configs_are_in_a_checkout(wheel, tmp_path):
    venv.create(tmp_path / "venv", symlinks=True)
    _pip(f"--python={tmp_path / 'venv'}", "install", "--no-deps", str(wheel))
    site = next(tmp_path.glob("venv/lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    command = [tmp_path / "venv/bin/t2t-jax", "train", "--config=configs/tiny.py", "--workdir=w"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    sentence = "configs/tiny.py: No such file or directory; configs/ and experiments/ are not ins"
    assert sentence in done.stderr and "Traceback" not in done.stderr


def test_all_that_is_required_is_in_the_constraints():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    required = [Requirement(line) for lines in [project["dependencies"], *extras] for line in lines]
    constraints: dict[str, list[str]] = {}
    for line in (REPOSITORY / "constraints.txt").read_text().splitlines():
        if not line.startswith("#"):
            constraint = Requirement(line)
            (version,) = (one.version for one in constraint.specifier)
            constraints.setdefault(canonicalize_name(constraint.name), []).append(version)
    for one in required:
        if one.name != project["name"]:
            versions = constraints.get(canonicalize_name(one.name), ["none"])
            told = f"{one}, but constraints.txt has {versions}: make constraints"
            assert all(one.specifier.contains(version) for version in versions), told


@pytest.mark.parametrize("target", ["quickstart", "test", "parity", "tpu-check", "gpu-check"])
def test_too_old_a_python_is_told_so_and_nothing_is_left(target, tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    code = "import sys; sys.version_info = (3, 10, 13); sys.argv.pop(0); exec(sys.argv[1])"
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{code}' \"$@\"\n")
    python.chmod(0o755)
    done = _make(python.parent, target)
    assert done.returncode != 0
    sentence = "needs Python 3.11 or newer, and python3 is 3.10"
    assert f"{sentence}: make {target} PYTHON=python3.11" in done.stderr, done.stderr
    assert not list(tmp_path.glob(".venv*"))


@pytest.mark.parametrize("target, extra", [("gpu-check", "cuda"), ("tpu-check", "tpu")])
def test_what_is_checked_on_an_accelerator_is_installed_for_one(target, extra, tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    (tmp_path / "bin").mkdir()
    told = _make(tmp_path / "bin", target, "--dry-run").stdout.splitlines()
    [installs] = [line for line in told if "--editable" in line]
    assert installs.endswith(f"'.[{extra},test]'")
    assert told[-1].split("/bin/pytest")[0].split()[-1] == installs.split("/bin/python")[0]


@pytest.mark.parametrize("extra", ["cuda", "cuda12", "tpu"])
def test_an_accelerator_has_an_environment_of_its_own(extra, tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    (tmp_path / "bin").mkdir()
    told = _make(tmp_path / "bin", "quickstart", f"EXTRA={extra}", "--dry-run").stdout.splitlines()
    [installs] = [line for line in told if "--editable" in line]
    assert installs.startswith(f".venv-{extra}/bin/") and installs.endswith(f"'.[{extra}]'")
    assert told[-1].startswith(f".venv-{extra}/bin/")


def test_an_environment_that_make_did_not_make_is_left_alone(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    somebodys = tmp_path / ".venv" / "pyvenv.cfg"
    somebodys.parent.mkdir()
    somebodys.write_text("home = /usr\n")
    done = _make(tmp_path / "bin", "quickstart")
    assert done.returncode != 0
    assert "make would empty .venv, which may not be its own" in done.stderr
    assert somebodys.exists()


@pytest.mark.parametrize("left", ["nothing", "an environment"])
def test_after_too_old_a_python_another_one_does(left, tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    bin = tmp_path / "bin"
    bin.mkdir()
    # They make environments in which pip has nothing to do.
    for name, version in {"python3": (3, 10, 13), "python3.11": (3, 11, 9)}.items():
        code = f"import sys; sys.version_info = {version}; sys.argv.pop(0); exec(sys.argv[1])"
        venv = 'mkdir -p "${4:?}/bin"; echo "#!/bin/sh" > "$4/bin/python"; chmod +x "$4/bin/python"'
        python = bin / name
        run = f"exec '{sys.executable}' -c '{code}' \"$@\""
        python.write_text(f'#!/bin/sh\nif [ "$2" = venv ]; then {venv}; else {run}; fi\n')
        python.chmod(0o755)
    if left == "an environment":
        venv_of_old = tmp_path / ".venv" / "bin"
        venv_of_old.mkdir(parents=True)
        shutil.copy(bin / "python3", venv_of_old / "python")
    target = ".venv-3.11/installed"
    assert _make(bin, "quickstart").returncode != 0
    done = _make(bin, target, "PYTHON=python3.11")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / target).is_file()


def _make(bin: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Of the Makefile beside `bin`, whose programs come first."""
    environment = {"PATH": f"{bin}:{os.environ['PATH']}"}  # without a make around us
    return subprocess.run(
        ["make", *arguments], cwd=bin.parent, env=environment, capture_output=True, text=True
    )


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)
