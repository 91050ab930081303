"""How much memory this machine has, and whether JAX says that memory did not suffice."""

import os


def of_machine() -> int:
    """Bytes of main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def is_exhausted(error: BaseException) -> bool:
    """Whether JAX says that a device has too little memory; CPUs say so in words of their own."""
    return any(sign in str(error) for sign in ("RESOURCE_EXHAUSTED", "Out of memory"))
