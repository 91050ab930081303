"""Valid names of test sets: their scores are kept in files of that name, and have columns."""

import re

SPLITS = ("train", "dev", "test", "long")
# Valid file names on every system that no other file of `scores` has.
_SAFE = re.compile(
    r"(?!.*\.(json|sentences|statistics|checkpoints)$)[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"
)


def is_name(name: str) -> bool:
    """Whether a test set may have this name."""
    return name.lower() not in SPLITS and _SAFE.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raises ValueError unless a test set may have this name."""
    if name.lower() in SPLITS:
        raise ValueError(
            f"--name={name!r} is that of a split, whose scores are kept by it: choose another, "
            "such as test2017"
        )
    if not is_name(name):
        raise ValueError(
            f"--name={name!r} cannot name a test set: use letters, digits and ._+-, begin with a "
            "letter or a digit, and do not end in .json or the like"
        )
