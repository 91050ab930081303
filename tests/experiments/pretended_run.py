"""A run that only pretends to train: its row says how it ends.

python -m tests.experiments.pretended_run DIRECTORY
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

COMMAND = (sys.executable, "-m", __name__)


def main(directory: Path) -> None:
    """Fails, is killed, waits to be stopped, or leaves a record."""
    run = json.loads((directory / "run.json").read_text())
    row = run["row"]
    (directory / "environment").write_text(json.dumps(dict(os.environ)))
    with open(directory / "times_run", "a") as file:
        file.write("x")
    if row == "one_head":
        (directory / "failure.json").write_text(json.dumps({"error": "ValueError: no such thing"}))
        sys.exit(1)
    if row == "one_layer":
        os.kill(os.getpid(), signal.SIGKILL)
    if row == "learned_positions" and "fussy" in str(directory):
        sys.exit("the disk is full")
    if row == "no_positions":
        (directory / "pid").write_text(str(os.getpid()))
        time.sleep(60)
    scores = {"dev": {"perplexity": 1.234}, "test": {"bleu": 91.26}}
    (directory / "record.json").write_text(json.dumps(run | {"scores": scores}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
