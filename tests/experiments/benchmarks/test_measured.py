"""The table of docs/MEASURED.md is what the command makes from the kept records."""

import pytest

from experiments.benchmarks.measured import DOCUMENT, RECORDS, document
from experiments.benchmarks.records import Record, read_records
from experiments.benchmarks.results import Measured, table

_EMPTY = "a\n<!-- made by `python -m experiments.benchmarks.measured` -->\nold\n<!-- end -->\nb\n"
_MACHINE = {"cpu": "Some CPU", "cores": 2, "memory_gib": 24, "python": "3.11.7", "jax": "0.10.2"}


def record(month, machine=_MACHINE, **values):
    results = [
        Measured(what, "s", [value]).result("p", "tiny", "make") for what, value in values.items()
    ]
    return Record(f"2026-0{month}-03T00:00:00Z", "0123456789abcdef", machine, results)


def test_the_committed_document_is_what_the_command_makes():
    text = DOCUMENT.read_text("utf-8")
    assert document(text, read_records(RECORDS)) == text


def test_no_records_make_no_table():
    text = document(_EMPTY, [])
    assert "old" not in text and "|" not in text
    assert document(text, []) == text and text.startswith("a\n<!--") and text.endswith("-->\nb\n")


def test_of_each_figure_the_newest_of_a_machine_is_shown():
    other = {**_MACHINE, "cores": 64}
    old, new, elsewhere = record(1, one=1.0, two=2.0), record(2, two=3.0), record(1, other, two=4.0)
    text = document(_EMPTY, [old, new, elsewhere])
    assert text.count("2026-") == 3
    assert (
        "2026-01-03, commit 0123456: Some CPU, 2 cores, 24 GiB; python 3.11.7, jax 0.10.2." in text
    )
    assert table(old.results[:1]) in text
    assert table(new.results) in text and table(elsewhere.results) in text
    assert document(_EMPTY, [record(1, two=2.0), new]).count("2026-") == 1


@pytest.mark.parametrize(
    ("machine", "num_machines"),
    [({}, 1), ({"gpus": "1 x some GPU"}, 2), ({"libtpu": "0.0.44"}, 2)],
)
def test_the_platform_asked_for_makes_another_machine_only_beside_an_accelerator(
    machine, num_machines
):
    machine = _MACHINE | machine
    asked = record(1, {**machine, "JAX_PLATFORMS": "cpu"}, two=2.0)
    text = document(_EMPTY, [asked, record(2, machine, two=3.0)])
    assert text.count("2026-") == num_machines


def test_a_search_beside_another_library_is_not_replaced_by_one_alone():
    def decoded(month, flags):
        found = Measured("beam", "s", [1.0 * month]).result("decode", "w", f"make{flags}")
        return Record(f"2026-0{month}-03T00:00:00Z", "0" * 40, _MACHINE, [found])

    beside, alone = decoded(1, " --against=one --rounds=9"), decoded(2, "")
    assert document(_EMPTY, [beside, alone]).count("2026-") == 2
    later = decoded(3, " --against=one,other")  # with other rounds
    text = document(_EMPTY, [beside, alone, later])
    assert "2026-01" not in text and text.count("2026-") == 2


def test_whose_outputs_are_other_went_without_saying():
    def decoded(month, what):
        found = Measured(what, "%", [1.0 * month]).result("decode", "w", "make")
        return Record(f"2026-0{month}-03T00:00:00Z", "0" * 40, _MACHINE, [found])

    earlier = decoded(1, "greedy, other outputs than one as thorough's")
    for later, num_shown in (("ours", 1), ("ours, rounded", 2)):
        newer = decoded(2, f"greedy, {later}, other outputs than one as thorough")
        assert document(_EMPTY, [earlier, newer]).count("2026-") == num_shown


def test_a_document_without_a_place_is_refused():
    with pytest.raises(ValueError, match="MEASURED.md has no lines <!-- made by"):
        document("nothing", [])
