"""The pages of the walkthrough print what they say; and a page that does not is found."""

import os
import re
import subprocess
import sys

import pytest

from tests.docs.commands import REPOSITORY
from tests.docs.walkthrough import INDEX, PAGES, differences, run_page, snippets
from tests.runs.configs import OVERRIDES

PAGE = """
# A page

```python
x = 2
print("x is", x, "and a third of it", round(x / 3, 3))
```

```text
x is 2 and a third of it 0.667
```

Names stay:

```python
print(f"weights {0.81:.2f} {x}")
```

```text within=0.1
weights 0.75 2
```
"""


UNTRAINED = [
    path.name
    for path in sorted(PAGES.glob("*.md"))
    if not re.search("```text within|t2t-jax train", path.read_text("utf-8"))
]


def run(module, *arguments, is_shown=True):
    """As a person runs it, if pages show its numbers: tests have JAX compile in their own way."""
    ours = ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS") if is_shown else ()
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=REPOSITORY,
        env=environment | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.walkthrough
def test_every_page_prints_and_draws_what_it_says(tmp_path):
    run("tests.docs.walkthrough", "--check", f"--workdir={tmp_path}")


@pytest.mark.slow
def test_pages_that_need_no_training_print_and_draw_what_they_say(tmp_path):
    assert len(UNTRAINED) > 2
    train = ["train", "--config=configs/tiny.py", f"--workdir={tmp_path / 'W'}"]
    words = ("data.", "model.vocabulary")  # pages show the pieces of some
    train += [f"--config.{key}={to}" for key, to in OVERRIDES.items() if not key.startswith(words)]
    run("t2t_jax.cli.main", *train, is_shown=False)
    run("tests.docs.walkthrough", "--check", f"--workdir={tmp_path}", *UNTRAINED)


def test_a_page_that_is_right_is_found_right(tmp_path):
    assert run_page(PAGE, tmp_path, check=True) == (PAGE, [])


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("0.667", "0.669"),
        ("0.667", "0.67"),
        ("0.667", "-0.667"),
        ("x is 2", "x is 3"),
        ("third of it 0", "fourth of it 0"),
        ("0.667\n", "0.667\nand more\n"),
        ("0.75 2", "0.70 2"),
        ("0.75 2", "0.75 3"),
        ("```text within=0.1\nweights 0.75 2\n```", ""),
    ],
)
def test_a_page_that_is_wrong_is_found_wrong(right, wrong, tmp_path):
    page = PAGE.replace(right, wrong)
    assert page != PAGE
    assert len(run_page(page, tmp_path, check=True)[1]) == 1


def test_a_page_that_is_wrong_is_made_right(tmp_path):
    page = PAGE.replace("0.667", "").replace("0.75 2", "")
    made, wrong = run_page(page, tmp_path, check=False)
    assert wrong == [] and made == PAGE.replace("0.75", "0.81")


@pytest.mark.parametrize(
    "said, printed, within, same",
    [
        ("a 0.50", "a 0.51", 0.0, True),
        ("a 0.50", "a 0.52", 0.0, False),
        ("[ 0.50 1]", "[-0.50 1]", 1.0, True),
        ("layer_1 0.5", "layer_2 0.5", 1.0, False),
        ("-0.00", "0.00", 0.0, True),
        ("a  b", "a b", 0.0, True),
        ("a b", "ab", 0.0, False),
    ],
)
def test_what_counts_as_the_same(said, printed, within, same):
    assert (differences(said, printed, within) == []) == same


def test_a_picture_that_no_snippet_writes_is_missed(tmp_path):
    (tmp_path / "old.png").write_bytes(b"of another time")
    (wrong,) = run_page("![what](old.png)\n", tmp_path, check=True)[1]
    assert "old.png is shown" in wrong


def test_an_output_needs_a_snippet_right_above_it():
    with pytest.raises(ValueError, match="without a snippet"):
        snippets("```text\nsomething\n```\n")


def test_every_chapter_is_in_the_index_has_a_picture_and_leads_on():
    index = (PAGES / INDEX).read_text("utf-8")
    chapters = sorted(path.name for path in PAGES.glob("[0-9]*.md"))
    assert len(chapters) == 13
    assert re.findall(r"^\| \d+ \| \[[^]]+\]\(([^)]+)\)", index, re.MULTILINE) == chapters
    for name, following in zip(chapters, [*chapters[1:], INDEX], strict=True):
        text = (PAGES / name).read_text("utf-8")
        assert re.search(r"!\[[^]]+\]\([\w-]+\.png\)", text), name
        assert f"({following})" in text.rstrip().rpartition("\n")[2], name


def test_the_pictures_are_small():
    assert sum(path.stat().st_size for path in PAGES.glob("*.png")) < 2_000_000
