import pytest

from experiments.benchmarks.results import Measured, Result, in_turns, over, table


def test_a_result_is_the_median_and_how_far_the_rounds_lie_apart():
    found = Measured("ours", "tokens/s", [3.0, 9.0, 1.0, 4.0]).result("step", "tiny", "make it")
    assert found == Result("step", "tiny", "ours", 3.5, "tokens/s", 1.0, 9.0, 4, "make it")


def test_a_ratio_is_taken_round_by_round():
    assert list(over("ours over theirs", [2.0, 9.0], [4.0, 3.0]).values) == [0.5, 3.0]
    with pytest.raises(ValueError):
        over("ours over theirs", [2.0, 9.0], [4.0])


def test_they_take_turns():
    asked = []

    def run(name):
        asked.append(name)
        return len(asked)

    found = in_turns({name: lambda name=name: run(name) for name in "ab"}, rounds=3)
    assert "".join(asked) == "ababab"
    assert found == {"a": [1, 3, 5], "b": [2, 4, 6]}


def test_the_table_is_markdown_in_columns():
    of_step = [
        Measured("ours", "tokens/s", [1234.5, 1200, 1300]),
        Measured("ours over torch", "ratio", [0.912, 1.1, 0.9]),
    ]
    results = [each.result("step", "small", "make step") for each in of_step]
    results.append(Measured("peak memory", "MiB", [812.2]).result("train", "small", "make train"))
    assert table(results).splitlines() == [
        "| part  | size  | what            | median         | lowest to highest | made alone by |",
        "|--|--|--|--|--|--|",
        "| step  | small | ours            | 1,234 tokens/s | 1,200 to 1,300    | `make step` |",
        "| step  | small | ours over torch | 0.912          | 0.9 to 1.1        |  |",
        "| train | small | peak memory     | 812 MiB        |                   | `make train` |",
    ]
