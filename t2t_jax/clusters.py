"""What a cluster says about this process: whether it has peers, and which GPUs are its own.

Environment: https://slurm.schedmd.com/srun.html, what JAX itself reads on Cloud TPU, and for an
indexed Kubernetes job https://kubernetes.io/docs/concepts/workloads/controllers/job.
"""

import os
import re
import time
import urllib.error
import urllib.request
from typing import NamedTuple

# How often to ask the metadata server before assuming that there is none.
_QUESTIONS = 3

_JAX_PORT = 8482  # JAX's port on Cloud TPU


class Place(NamedTuple):
    """The place of this process in its job."""

    coordinator: str  # address:port of the first
    num_processes: int
    process_id: int


def slurm_has_others() -> bool:
    """Whether this is one of several tasks of a SLURM step."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    return tasks.isdecimal() and int(tasks) > 1


def tpu_has_others() -> bool:
    """Whether this is one of several machines of a Cloud TPU.

    In GKE, the environment says so; a virtual machine with chips is asked.
    """
    if "MEGASCALE_COORDINATOR_ADDRESS" in os.environ:
        return True
    if "1,1,1" in (os.environ.get("TPU_PROCESS_BOUNDS"), os.environ.get("TPU_HOST_BOUNDS")):
        return False  # this process was separated from the others on purpose
    for name in ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"):
        # On a single machine, libtpu may write a warning there.
        if re.fullmatch(r"[^,\s]+(,[^,\s]+)+", os.environ.get(name, "")):
            return True
    # JAX sets the first if it finds a TPU, and the second if it finds none.
    is_machine = os.environ.get("TPU_ML_PLATFORM") == "JAX"
    if not is_machine or "TPU_SKIP_MDS_QUERY" in os.environ:
        return False
    if "tpu" not in os.environ.get("JAX_PLATFORMS", "tpu"):
        return False
    slices = re.search(r"^MEGASCALE_NUM_SLICES: *'?(\d+)", _of_this_machine("tpu-env"), re.M)
    num_slices = int(slices[1]) if slices else 1
    return num_slices > 1 or "," in _of_this_machine("worker-network-endpoints")


def place_in_kubernetes() -> Place | None:
    """The place of a pod in an indexed job, such as a JobSet's; None if the manifest has none.

    Kubernetes sets JOB_COMPLETION_INDEX, and the manifest JAX_COORDINATOR_ADDRESS, the name of the
    first pod, and JAX_NUM_PROCESSES.

    Raises:
      ValueError: only one of the two is set, or a number is invalid or out of range.
    """
    index = os.environ.get("JOB_COMPLETION_INDEX")
    names = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES")
    address, number = (os.environ.get(name) for name in names)
    if index is None or (address is None and number is None):
        return None
    if not address or not number:
        lacking = names[0] if not address else names[1]
        raise ValueError(f"{' and '.join(names)} go together, and {lacking} is not set")
    if not (number.isdecimal() and index.isdecimal() and int(index) < int(number)):
        raise ValueError(
            f"JOB_COMPLETION_INDEX={index} must be from 0 to one less than "
            f"JAX_NUM_PROCESSES={number}"
        )
    if not re.search(r":\d+$", address):
        address = f"{address}:{_JAX_PORT}"
    return Place(address, int(number), int(index))


def _of_this_machine(attribute: str) -> str:
    """An attribute of this virtual machine from Google Cloud; "" if there is no answer."""
    server = os.environ.get("GCE_METADATA_IP", "metadata.google.internal")
    url = f"http://{server}/computeMetadata/v1/instance/attributes/{attribute}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    for _ in range(_QUESTIONS):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError:
            break  # it has no such attribute
        except OSError:
            time.sleep(0.5)
    return ""


def local_device_ids() -> list[int] | None:
    """The GPUs of this process: [] for all it sees, None to let JAX decide.

    JAX takes one GPU per SLURM task, by its number on the node, which is right only if every task
    sees all GPUs.
    """
    counts = re.sub(r"\(x\d+\)", "", os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    is_told_by_others = {"JAX_LOCAL_DEVICE_IDS", "OMPI_COMM_WORLD_SIZE"} & os.environ.keys()
    if is_told_by_others or not re.fullmatch(r"\d+(,\d+)*", counts):
        return None
    most_tasks = max(map(int, counts.split(",")))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    num_visible = 0 if visible is None else len(visible.split(","))
    own = re.search(r"\d+$", os.environ.get("SLURM_GPUS_PER_TASK", ""))
    has_its_own = num_visible < most_tasks if own is None else num_visible <= int(own[0])
    return [] if most_tasks == 1 or (visible is not None and has_its_own) else None
