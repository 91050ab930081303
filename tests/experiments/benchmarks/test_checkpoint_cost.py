"""The cost of a checkpoint, relative to the steps between two."""

from configs import tiny
from experiments.benchmarks.checkpoint_cost import measure
from tests.runs.configs import OVERRIDES


def test_shares_are_of_the_steps_between_two_checkpoints():
    config = tiny.get_config()
    config.update_from_flattened_dict(OVERRIDES | {"data.target_tokens_per_batch": 64})
    found = measure(config, rounds=1)
    between = 4 * found["seconds_of_step"]
    assert found["percent_for_checksums"] == 100 * found["seconds_of_checksums"] / between > 0
    assert found["percent_for_saving"] == 100 * found["seconds_of_save"] / between
