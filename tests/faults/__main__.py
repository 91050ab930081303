"""What faults can do to runs, corpora and sweeps: the long form, minutes of it.

    make faults        python -m tests.faults --seed=1 --only=kills,disks --share=0.2

Prints a table of counts, a line as soon as it is known, and to the standard error what did not
hold, with the moments and the seed that repeat it. Exit code 1 if something did not.
"""

import argparse
import contextlib
import functools
import io
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from tests.faults import (  # noqa: E402, which import jax
    corpora,
    damage,
    disks,
    kills,
    launched,
    layouts,
    poison,
    twice,
)
from tests.faults.count import Count  # noqa: E402
from tests.faults.trainings import Trainings  # noqa: E402


def parts(directory: Path, share: float, seed: int) -> Iterator[tuple[str, Callable[[], Count]]]:
    """Names and what counts, each of which makes its files in a directory of its own."""

    def some(number: int) -> int:
        return max(1, round(share * number))

    def own(name: str) -> Path:
        (directory / name).mkdir(exist_ok=True)
        return directory / name

    @functools.cache
    def trainings() -> Trainings:
        return Trainings(own("trainings"))

    def killed(num: int, number: int) -> Count:
        return kills.kills(trainings(), own("kills"), some(num), number, seed)

    yield "kills", lambda: killed(30, signal.SIGKILL)
    yield "kills", lambda: killed(10, signal.SIGTERM)
    yield "layouts", lambda: layouts.moves(trainings(), own("layouts"), some(3), seed)
    yield "damage", lambda: damage.bits(own("bits"), some(500), seed)
    yield "damage", lambda: damage.lengths(own("lengths"))
    for policy in poison.POLICIES:
        yield (
            "nonfinite",
            functools.partial(poison.plants, own(policy), some(10), policy, seed),
        )
    yield "disks", lambda: disks.full(trainings(), own("disks"), some(10), seed)
    yield "launched", lambda: launched.sweeps(own("sweeps"), some(10), seed)
    yield "launched", lambda: launched.runs(own("runs"), some(10), seed)
    yield "launched", lambda: launched.nodes(own("nodes"), some(3), seed)
    yield "corpora", lambda: corpora.pairs_of_bytes(own("corpora"), some(1_000), seed)
    yield "twice", lambda: twice.trains(trainings(), own("trains"), some(3))
    yield "twice", lambda: twice.prepares(trainings(), own("prepares"), some(5))
    yield "twice", lambda: twice.sweeps(trainings(), own("two_sweeps"), some(2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the numbers of the long form")
    parser.add_argument("--only", default="", help="parts, such as kills,disks")
    given = parser.parse_args()
    lost: list[str] = []
    say = functools.partial(print, flush=True)
    with tempfile.TemporaryDirectory(prefix="t2t_jax_faults_") as directory:
        every = list(parts(Path(directory), given.share, given.seed))
        names = dict.fromkeys(name for name, _ in every)
        if unknown := set(filter(None, given.only.split(","))) - names.keys():
            parser.error(f"--only={min(unknown)} is none of {', '.join(names)}")
        say("| fault | tried | held | | seconds |\n|--|--|--|--|--|")
        for name, count_of in every:
            if given.only and name not in given.only.split(","):
                continue
            started = time.monotonic()
            with contextlib.redirect_stderr(io.StringIO()):  # what trainings say as they go
                count = count_of()
            lost += count.lost
            say(f"{count.line} {time.monotonic() - started:.0f} |")
            print(*count.lost, sep="\n", end="\n" * bool(count.lost), file=sys.stderr, flush=True)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
