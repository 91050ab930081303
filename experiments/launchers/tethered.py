"""Runs a command that does not outlive the process that started it.

    python -m experiments.launchers.tethered COMMAND ARGUMENTS...

A killed launcher can no longer stop its runs. On Linux, the system then kills them, so that none
keeps writing next to the run that replaces it. Elsewhere nothing does, and the lock in the run's
directory makes the replacement wait.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2); holds across execve


def main() -> None:
    """Becomes the command of `sys.argv`."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("tethered: whoever started this has ended")
    # SLURM sends its warning to all processes of a job; it would kill those that do not handle it.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
