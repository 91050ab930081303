"""What numbers on an accelerator depend on, told without taking one."""

from pathlib import Path

# Compilers, plugins and kernels, of which each machine has its own.
PACKAGES = (
    *("libtpu", "jax-cuda13-plugin", "jax-cuda12-plugin"),
    *("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"),
)


def nvidia(place: Path = Path("/proc/driver/nvidia")) -> dict[str, str]:
    """NVIDIA's driver and GPUs as Linux reports them; empty without them."""
    try:
        first, *_ = (place / "version").read_text().splitlines() or [""]
        files = [file.read_text() for file in sorted(place.glob("gpus/*/information"))]
    except OSError:
        return {}
    lines = [line.partition(":")[::2] for text in files for line in text.splitlines()]
    models = [value.strip() for name, value in lines if name == "Model"]
    found = {"nvidia_driver": " ".join(first.partition(":")[2].split())}
    if models:
        names = dict.fromkeys(models)
        found["gpus"] = ", ".join(f"{models.count(name)} x {name}" for name in names)
    return found
