"""Training on a mix of corpora."""

import itertools
from pathlib import Path

import pytest

from t2t_jax.data.corpora.corpus import (
    check_corpus,
    class_names,
    content_hashes,
    corpora_of,
    read_examples,
)
from tests.data.text_corpus import (
    sentence_pairs,
    text_config,
    write_corpus,
    write_pairs,
)

TASKS_AND_ENDINGS = {
    "translation": ("en", "de"),
    "language_modelling": ("de",),
    "masked_language_modelling": ("en",),
    "classification": ("en", "labels"),
}


@pytest.fixture
def mixture(tmp_path):
    """A config whose train is 30 pairs of "a", read twice an epoch, and 10 of "b"."""
    write_corpus(tmp_path)
    (tmp_path / "train.en").unlink()  # which a mixture does not read
    for name, pairs in (("a", sentence_pairs(30)), ("b", sentence_pairs(40)[30:])):
        (tmp_path / name).mkdir()
        write_pairs(tmp_path / name, "train", pairs)
    return text_config(tmp_path, mixture=f"{tmp_path}/a=2,{tmp_path}/b=1")


def test_a_mixture_reads_train_from_its_corpora_and_the_rest_from_the_directory(mixture):
    corpora = corpora_of(mixture, "train")
    assert list(corpora) == [f"{mixture.directory}/a", f"{mixture.directory}/b"]
    assert list(corpora_of(mixture, "dev")) == [""]
    pairs = sentence_pairs(120)
    assert list(read_examples(mixture, "train")) == pairs[:40]
    assert list(read_examples(mixture, "dev")) == pairs[80:100]
    assert [corpus.num_examples("train") for corpus in corpora.values()] == [30, 10]
    chunks_of = [corpus.read_chunks("train", 20) for corpus in corpora.values()]
    assert [[chunk.decode() for chunk in chunks] for chunks in chunks_of] == [
        [pairs[:20], pairs[20:30]],
        [pairs[30:40]],
    ]
    check_corpus(mixture)


def test_mistakes_in_a_mixture_name_the_file_of_its_corpus(mixture):
    (name, other), file = corpora_of(mixture, "train"), "train.de"
    with (Path(other) / file).open("ab") as stream:
        stream.write(b"one more\n")
    with pytest.raises(ValueError, match=rf"{other}/train.en has 10 lines, {other}/{file} has 11"):
        check_corpus(mixture)
    (Path(other) / file).write_bytes(b"\n\xff\n")
    with pytest.raises(ValueError, match=rf"^{other}/{file}, line 2: not UTF-8"):
        check_corpus(mixture)
    (Path(other) / file).unlink()
    with pytest.raises(ValueError, match=rf"no train split in {other}: neither {file} nor"):
        read_examples(mixture, "train")
    missing = text_config(Path(mixture.directory), mixture=f"{name}=1,/nowhere=1")
    with pytest.raises(ValueError, match="^/nowhere, which .* is not an existing"):
        content_hashes(missing)


def test_hashes_of_a_mixture_follow_content_and_order_but_not_the_place(mixture, tmp_path):
    hashes = content_hashes(mixture)
    assert sorted(hashes) == [
        *(f"corpus {number}/train.{language}" for number in (1, 2) for language in ("de", "en")),
        *("dev.de", "dev.en", "test.de", "test.en"),
    ]
    a, b = corpora_of(mixture, "train")
    Path(b).rename(tmp_path / "c")
    assert content_hashes(text_config(tmp_path, mixture=f"{a}=1,{tmp_path}/c=4")) == hashes
    assert content_hashes(text_config(tmp_path, mixture=f"{tmp_path}/c=1,{a}=1")) != hashes


@pytest.mark.parametrize("task", TASKS_AND_ENDINGS)
def test_every_task_reads_a_mixture(tmp_path, task):
    endings = TASKS_AND_ENDINGS[task]
    texts = {"a": ["one", "two"], "b": ["three", "one"], ".": ["two"]}
    for name, stems in (("a", ["train"]), ("b", ["train"]), (".", ["dev", "test"])):
        (tmp_path / name).mkdir(exist_ok=True)
        for stem, ending in itertools.product(stems, endings):
            text = "".join(f"{line}\n" for line in texts[name])
            (tmp_path / name / f"{stem}.{ending}").write_text(text)
    config = text_config(tmp_path, task=task, mixture=f"{tmp_path}/a=1,{tmp_path}/b=1")
    check_corpus(config)
    examples = [(text,) * len(endings) for text in ("one", "two", "three", "one")]
    assert list(read_examples(config, "train")) == examples
    assert class_names(config) == (("one", "three", "two") if task == "classification" else ())
