"""Translations to look at, beside their source and their reference."""

from pathlib import Path

from experiments.run import record
from experiments.run.plain_text import plain_text


def sample_translations(directory: Path, num_samples: int) -> str:
    """Source, translation and reference of the first test sentences of a finished run."""
    from t2t_jax.data.config import DataConfig
    from t2t_jax.data.corpora.corpus import read_pairs

    config = DataConfig(**record.read_run(directory).config["data"])
    path = directory / "translations" / "test.txt"
    with open(path, encoding="utf-8") as translations:
        triples = zip(read_pairs(config, "test"), translations, range(num_samples), strict=False)
        blocks = [
            f"  source       {plain_text(source)}\n"
            f"  translation  {plain_text(translation.rstrip())}\n"
            f"  reference    {plain_text(target)}"
            for (source, target), translation, _ in triples
        ]
    return "\n\n".join(blocks)
