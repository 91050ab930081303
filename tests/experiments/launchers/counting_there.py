"""`counting_run` in the bucket of `fake_gcloud`, by the first host; others wait for its end.

python tests/experiments/launchers/counting_there.py gs://BUCKET/DIRECTORY
"""

import sys
import time
from pathlib import Path

from experiments.run import presence, record
from tests.experiments.launchers import counting_run, fake_gcloud

if __name__ == "__main__":
    directory = fake_gcloud.path(sys.argv[-1])
    print(f"on {Path.home().name}")
    if "--is_taken" in sys.argv:
        sys.exit(presence.IS_TAKEN)
    if Path.home().name == "w-0":
        with presence.present(directory):
            counting_run.main(directory)
    while not (directory / record.RECORD_FILE).exists():
        time.sleep(0.1)
