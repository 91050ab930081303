"""Collects the largest differences and prints them as a table when all tests are done.

Tests may run in other processes: what they note travels with their reports.
"""

import pytest

_DIFFERENCES, _TRANSLATIONS = "largest difference", "translations"
_ROWS = pytest.StashKey[dict[str, list]]()
_CONFIGS = []


def pytest_configure(config):
    config.stash[_ROWS] = {_DIFFERENCES: [], _TRANSLATIONS: []}
    _CONFIGS.append(config)


@pytest.fixture
def largest_difference(record_property):
    """`(family, peer, ours, theirs)`: notes the largest absolute difference, and returns it."""

    def note(family, peer, ours, theirs):
        import numpy as np

        assert ours.shape == theirs.shape
        found, largest = (float(np.max(np.abs(each))) for each in (ours - theirs, theirs))
        record_property(_DIFFERENCES, [family, peer, found, largest, ours.size])
        return found

    return note


@pytest.fixture
def translations_compared(record_property):
    """`(search, peer, compared, equal, left out)`: notes how many translations are equal."""
    return lambda *row: record_property(_TRANSLATIONS, list(row))


def pytest_runtest_logreport(report):
    if report.when == "call":
        for name, row in report.user_properties:
            _CONFIGS[-1].stash[_ROWS][name].append(row)


def pytest_terminal_summary(terminalreporter, config):
    of_pairs = {}
    for family, peer, *numbers in config.stash[_ROWS][_DIFFERENCES]:
        of_pairs.setdefault((family, peer), []).append(numbers)
    differences = []
    for pair, rows in of_pairs.items():
        found, largest, counts = zip(*rows, strict=True)
        cells = f"{sum(counts):,}", f"{max(largest):.1f}", f"{max(found):.1e}"
        differences.append((*pair, *cells))
    _print_table(
        terminalreporter,
        "largest logit differences",
        ("family", "peer", "numbers compared", "largest", "largest difference"),
        differences,
    )
    _print_table(
        terminalreporter,
        "translations of an exported model",
        ("search", "peer", "compared", "equal token for token", "at the longest output, left out"),
        config.stash[_ROWS][_TRANSLATIONS],
    )


def _print_table(reporter, title, head, rows):
    if rows:
        reporter.section(title)
        for cells in (head, ["--"] * len(head), *rows):
            reporter.line("| " + " | ".join(map(str, cells)) + " |")
