"""The compare command, as a user types it."""

from t2t_jax.cli import compare
from t2t_jax.evaluation.bleu_by_length import LengthScore
from t2t_jax.evaluation.significance import Comparison
from t2t_jax.json_files import read_json, write_json
from t2t_jax.runs.compare import Compared, MetricOfBoth, OfLength
from tests.cli.command import command
from tests.runs.written_scores import PAIRS, RIGHT, WRONG, write_run


def test_two_runs_are_compared_in_numbers_and_in_sentences(tmp_path):
    runs = write_run(tmp_path / "w1", WRONG), write_run(tmp_path / "w2", RIGHT)
    done = command("compare", *map(str, runs), "--name=mine", "--sentences=1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("mine: 16 sentences of ") and lines[2] == f"W2: {runs[1]}"
    [of_paper] = [line.split() for line in lines if line.startswith("bleu_paper ")]
    assert of_paper[2:4] == ["100.00", f"{100 - float(of_paper[1]):+.2f}"]
    assert "|tok:paper-de-sacremoses-" in of_paper[-1]
    place = lines.index("sentence 3, 4 words, BLEU 66.9 and 100.0")
    expected = [*PAIRS[2], WRONG[2], RIGHT[2]]
    titles = ("source", "reference", "W1", "W2")
    assert lines[place + 1 : place + 5] == [
        f"  {title:11}{text}" for title, text in zip(titles, expected, strict=True)
    ]


def test_another_search_is_told_above_the_numbers(tmp_path):
    runs = write_run(tmp_path / "w1", WRONG), write_run(tmp_path / "w2", RIGHT)
    for run, decoding in zip(runs, ({"beam_size": 4}, {"beam_size": 1}), strict=True):
        path = run / "scores" / "mine.json"
        write_json(path, read_json(path) | {"decoding": decoding})
    lines = command("compare", *map(str, runs), "--name=mine").stdout.splitlines()
    assert lines[3] == (
        "W1 and W2 were decoded with different settings, which affects the scores: "
        "decoding.beam_size 4 and 1"
    )
    assert lines[4] == ""


def test_columns_keep_apart_whatever_the_numbers():
    comparison = Comparison(-351.79, -1351.79, 351.79, 0.0005)
    metric = MetricOfBoth("bleu_13a_lowercased", "s", (12345.67, 11993.88), comparison)
    length = LengthScore((1, 1000), 1_000_000, 12345.67)
    found = Compared(1, [], [], [metric], [OfLength((length, length), [])])
    lines = list(compare._lines(found, "mine", ("a", "b")))
    [of_metric] = [line for line in lines if line.startswith("bleu_13a")]
    interval = ["-1351.79", "to", "+351.79"]
    assert of_metric.split()[1:] == ["12345.67", "11993.88", "-351.79", *interval, "0.0005", "s"]
    assert lines[-1].split() == ["1", "to", "1000", "12345.67", "12345.67", "+0.00", "1,000,000"]


def test_what_would_move_the_cursor_is_not_printed(tmp_path):
    runs = write_run(tmp_path / "w1", ["\x1b[2J", *WRONG[1:]]), write_run(tmp_path / "w2", RIGHT)
    done = command("compare", *map(str, runs), "--name=mine")
    assert "  W1         ?[2J" in done.stdout.splitlines()


def test_two_directories_are_needed(tmp_path):
    done = command("compare", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "t2t-jax compare: it needs W1 and W2, see --help\n"
    assert "'c' is not a flag" in command("compare", "a", "b", "c").stderr
    sentence = "t2t-jax compare: a has no scores of 'test': t2t-jax score --workdir=a makes them"
    assert command("compare", "a", "b").stderr.startswith(sentence)


def test_help_of_a_verb_without_a_config_lists_no_keys():
    shown = command("compare", "--help").stdout
    assert command("compare", "--help=model").stdout == shown
    assert "--[no]debug" in shown and "--config." not in shown
