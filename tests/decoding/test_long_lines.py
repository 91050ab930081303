"""Lines longer than any the model was trained on."""

import pytest

from t2t_jax.decoding.long_lines import LineLimit, parts_of, refusing_long_lines


def count_words(lines):
    return [len(line.split()) for line in lines]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("One two. Three four five!  Six?", ["One two.", "Three four five!", "Six?"]),
        ('He said "no." She left … then', ['He said "no."', "She left …", "then"]),
        ("Version 2.5 is out.", ["Version", "2.5 is out."]),
        ("a b c d e f g h", ["a b", "c d", "e f", "g h"]),  # at the middle, and its halves
        ("one two three, seventeen", ["one two three,", "seventeen"]),
        ("他来了。她走了！", ["他来了。", "她走了！"]),
        ("本当！？はい。", ["本当！？", "はい。"]),
        ("彼は「もう行く。」と言った。", ["彼は「もう行く。」", "と言った。"]),
        (" a b c d ", ["a b", "c d"]),
        ("", []),
    ],
)
def test_a_line_is_cut_at_the_ends_of_sentences_and_a_long_sentence_in_halves(line, parts):
    assert parts_of(line, count_words, 3) == parts


def test_what_has_no_spaces_is_cut_all_the_same():
    def count_letters(lines):
        return [len(line) for line in lines]

    assert parts_of("abcdefgh", count_letters, 3) == ["ab", "cd", "ef", "gh"]
    assert "".join(parts_of("x" * 100_001, count_letters, 7)) == "x" * 100_001
    # A letter may be more tokens than are allowed.
    assert parts_of("ab", lambda lines: [4 * len(line) for line in lines], 3) == ["a", "b"]


def test_a_refused_line_leaves_those_before_it():
    windows = iter([["a", "b b"], ["c", "d d d d", "e"], ["f"]])
    checked = refusing_long_lines(windows, count_words, LineLimit(3, "data.max_length"), "cut it")
    assert next(checked) == ["a", "b b"]
    assert next(checked) == ["c"]
    with pytest.raises(ValueError, match=r"line 4 has 4 tokens, more than data.max_length=3.*cut"):
        next(checked)
    assert next(windows) == ["f"]
