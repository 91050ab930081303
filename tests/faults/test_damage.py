"""No checkpoint with a damaged file is loaded as anything but what was saved."""

import pytest

from tests.faults.damage import REFUSED, WRONG, Saved, cuts, files_of, flipped, flips, outcomes
from tests.training.runs import Run


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Saved(Run(), tmp_path_factory.mktemp("run") / "checkpoints")


@pytest.mark.parametrize("damages", [lambda d: flips(d, 40, seed=1), cuts], ids=["flips", "cuts"])
def test_a_damaged_file_is_seen_or_does_not_matter(saved, damages):
    counts, unseen = outcomes(damages(saved.directory), saved.load, saved.expected)
    assert unseen == [] and counts[WRONG] == 0
    assert counts[REFUSED] > 0


def test_every_bit_of_what_a_checkpoint_is_about_is_seen(saved):
    path = saved.directory / "about" / "metadata"
    assert path in files_of(saved.directory)
    content = path.read_bytes()
    damages = ((path, flipped(content, bit)) for bit in range(0, 8 * len(content), 97))
    counts, _ = outcomes(damages, saved.load, saved.expected)
    assert counts.keys() == {REFUSED}
