"""Collects the largest differences and prints them as a table when all tests are done."""

import pytest

_ROWS = pytest.StashKey[dict]()
_TRANSLATIONS = pytest.StashKey[list]()


def pytest_configure(config):
    config.stash[_ROWS] = {}
    config.stash[_TRANSLATIONS] = []


@pytest.fixture
def largest_difference(request):
    """`(family, peer, ours, theirs)`: notes the largest absolute difference, and returns it."""
    rows = request.config.stash[_ROWS]

    def note(family, peer, ours, theirs):
        import numpy as np

        assert ours.shape == theirs.shape
        found = float(np.max(np.abs(ours - theirs)))
        largest = float(np.max(np.abs(theirs)))
        before, before_largest, count = rows.get((family, peer), (0.0, 0.0, 0))
        rows[family, peer] = (max(before, found), max(before_largest, largest), count + ours.size)
        return found

    return note


@pytest.fixture
def translations_compared(request):
    """`(search, peer, compared, equal, left out)`: notes how many translations are equal."""
    rows = request.config.stash[_TRANSLATIONS]
    return lambda *row: rows.append(row)


def pytest_terminal_summary(terminalreporter, config):
    _print_table(
        terminalreporter,
        "largest logit differences",
        ("family", "peer", "numbers compared", "largest", "largest difference"),
        [
            (family, peer, f"{count:,}", f"{largest:.1f}", f"{found:.1e}")
            for (family, peer), (found, largest, count) in config.stash[_ROWS].items()
        ],
    )
    _print_table(
        terminalreporter,
        "translations of an exported model",
        ("search", "peer", "compared", "equal token for token", "at the longest output, left out"),
        config.stash[_TRANSLATIONS],
    )


def _print_table(reporter, title, head, rows):
    if rows:
        reporter.section(title)
        for cells in (head, ["--"] * len(head), *rows):
            reporter.line("| " + " | ".join(map(str, cells)) + " |")
