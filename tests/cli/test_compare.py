"""The compare command as a person types it."""

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
    place = lines.index("line 3, 4 words, BLEU 66.9 and 100.0")
    expected = [*PAIRS[2], WRONG[2], RIGHT[2]]
    titles = ("source", "reference", "W1", "W2")
    assert lines[place + 1 : place + 5] == [
        f"  {title:11}{text}" for title, text in zip(titles, expected, strict=True)
    ]


def test_what_would_move_the_cursor_is_not_printed(tmp_path):
    runs = write_run(tmp_path / "w1", ["\x1b[2J", *WRONG[1:]]), write_run(tmp_path / "w2", RIGHT)
    done = command("compare", *map(str, runs), "--name=mine")
    assert "  W1         ?[2J" in done.stdout.splitlines()


def test_two_directories_are_needed(tmp_path):
    done = command("compare", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "t2t-jax compare: it needs W1 and W2, see --help\n"
    assert "'c' is no flag" in command("compare", "a", "b", "c").stderr
    sentence = "t2t-jax compare: a has no scores of 'test': t2t-jax score --workdir=a makes them"
    assert command("compare", "a", "b").stderr.startswith(sentence)


def test_help_of_a_verb_without_a_config_lists_no_keys():
    shown = command("compare", "--help").stdout
    assert "--[no]debug" in shown and "--config." not in shown
