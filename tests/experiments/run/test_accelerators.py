"""The driver and the GPUs of a machine, from files such as Linux has."""

from experiments.run import accelerators
from experiments.run.accelerators import nvidia
from experiments.run.run import versions

VERSION = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)
GCC version:  gcc version 13.3.0
"""
GPU = "Model: \t\t {}\nIRQ:   \t\t 73\nGPU UUID: \t GPU-0\n"


def test_the_driver_and_the_gpus_are_those_that_linux_reports(tmp_path):
    (tmp_path / "version").write_text(VERSION)
    for number in range(2):
        (tmp_path / "gpus" / str(number)).mkdir(parents=True)
        information = GPU.format("NVIDIA H100 80GB HBM3")
        (tmp_path / "gpus" / str(number) / "information").write_text(information)
    assert nvidia(tmp_path) == {
        "nvidia_driver": "NVIDIA UNIX Open Kernel Module for x86_64 580.65.06 Release Build "
        "(dvs-builder)",
        "gpus": "2 x NVIDIA H100 80GB HBM3",
    }


def test_without_a_driver_nothing_is_told(tmp_path):
    assert nvidia(tmp_path / "none") == {}
    (tmp_path / "version").write_text(VERSION)
    assert set(nvidia(tmp_path)) == {"nvidia_driver"}


def test_a_record_has_them_among_its_versions(monkeypatch):
    monkeypatch.setattr(accelerators, "nvidia", lambda: {"nvidia_driver": "580.65.06"})
    assert versions()["nvidia_driver"] == "580.65.06"
