"""Prepares a text corpus in chunks of seven pairs.

python -m tests.data.prepare_corpus DIR NUM_PROCESSES [BYTES], where no file may have more BYTES
"""

import resource
import sys
from pathlib import Path

from t2t_jax.data.prepare import building
from t2t_jax.data.prepare.prepared import prepare
from tests.data.text_corpus import text_config

PAIRS_PER_CHUNK = 7


def main() -> None:
    """Prepares the corpus in DIR, and says what is done."""
    building._EXAMPLES_PER_CHUNK = PAIRS_PER_CHUNK
    directory, num_processes, *limit = sys.argv[1:]
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit[0]), int(limit[0])))
    try:
        prepared = prepare(
            text_config(Path(directory)),
            lambda line: print(line, flush=True),
            num_processes=int(num_processes),
        )
    except OSError as error:
        sys.exit(f"failed: {error}")
    print(prepared.fingerprint)


if __name__ == "__main__":
    main()
