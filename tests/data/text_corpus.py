"""A small text corpus for the tests in this folder."""

from pathlib import Path

from configs import tiny
from t2t_jax.data.config import DataConfig

_NOUNS = (("cat", "Katze"), ("duck", "Ente"), ("mouse", "Maus"), ("bee", "Biene"), ("cow", "Kuh"))
_VERBS = (("sees", "sieht"), ("hears", "hört"), ("finds", "findet"), ("feeds", "füttert"))


def sentence_pairs(num_pairs: int) -> list[tuple[str, str]]:
    """Different lengths, all letters of both languages' words, no pair blank."""
    pairs = []
    for p in range(num_pairs):
        (subject, subjekt), (verb, verb_de) = _NOUNS[p % 5], _VERBS[p // 5 % 4]
        objects = [_NOUNS[(p // 20 + k) % 5] for k in range(1 + p % 4)]
        english = " and ".join(f"the {noun}" for noun, _ in objects)
        german = " und ".join(f"die {noun}" for _, noun in objects)
        pairs.append((f"the {subject} {verb} {english} .", f"die {subjekt} {verb_de} {german} ."))
    return pairs


def write_pairs(directory: Path, stem: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (directory / f"{stem}.{language}").write_bytes(text.encode("utf-8"))


def write_corpus(directory: Path) -> None:
    pairs = sentence_pairs(120)
    write_pairs(directory, "train", pairs[:80])
    write_pairs(directory, "dev", pairs[80:100])
    write_pairs(directory, "test", pairs[100:])


def write_labelled(directory: Path, stem: str, examples: list[tuple[str, str]]) -> None:
    """Sentences and their classes, as two files."""
    for side, ending in enumerate(("en", "labels")):
        text = "".join(example[side] + "\n" for example in examples)
        (directory / f"{stem}.{ending}").write_bytes(text.encode("utf-8"))


def labelled_sentences(num_sentences: int) -> list[tuple[str, str]]:
    """Sentences of `sentence_pairs`, by how many objects they have."""
    names = ("one", "two", "three", "four")
    english = [pair[0] for pair in sentence_pairs(num_sentences)]
    return [(sentence, names[p % 4]) for p, sentence in enumerate(english)]


def text_config(directory: Path, **changes) -> DataConfig:
    keys = tiny.get_config().data.to_dict() | {
        "source": "text",
        "directory": str(directory),
        "vocabulary_size": 60,
        "max_length": 100,
        "cache": str(directory / "cache"),
        "source_tokens_per_batch": 256,
        "target_tokens_per_batch": 256,
    }
    return DataConfig(**keys | changes)
