"""What was done, from the config of a table's base and its records."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t2t_jax.json_files import flat_dict

# The numbers of sentences in a record, and the words for them.
_SPLITS = (("train", "to train"), ("dev", "to validate"), ("test", "to test"))

# A count of one, and the noun without its ending.
_OF_ONE = re.compile(r"(?<![\d,.])1 (layer|head|step|evaluation|piece)s\b")


def method(base: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on the corpus, the base row's model, its training and the search.

    Args:
      base: the config of the base row, of this version or another; missing keys are not mentioned.
      records: of the finished runs; the numbers of sentences are the first one's.
    """
    config = _Settings(flat_dict(dict(base)))
    parts = (
        ("Corpus", [_corpus(config), _sizes(config, records), _vocabulary(config)]),
        ("Model of the base row", list(_model(config))),
        ("Training", list(_training(config))),
        ("Search", list(_search(config)) if config["data.task"] == "translation" else []),
    )
    told = ((label, ", ".join(filter(None, words))) for label, words in parts)
    return [f"{label}: {words}." for label, words in told if words]


class _Settings:
    """Dotted key -> its value as text, "" for a missing key."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = values

    def __getitem__(self, key: str) -> str:
        return _number(self._values.get(key, ""))

    def all(self, template: str, *keys: str) -> str:
        """The template filled with these values; "" if one is missing."""
        values = [self[key] for key in keys]
        return _OF_ONE.sub(r"1 \1", template.format(*values)) if all(values) else ""

    def unless(self, usual: Any, template: str, key: str) -> str:
        """The same with one value; "" if it is the usual one."""
        return "" if self._values.get(key, usual) == usual else self.all(template, key)


def _number(value: Any) -> str:
    """An integer with commas; anything else as it is."""
    return f"{value:,}" if type(value) is int else str(value)


def _corpus(config: _Settings) -> str:
    mixture = config.all("a mixture of {}", "data.mixture")
    source = config["data.source"]
    files = config.all("{}, {}, {}", "data.train", "data.dev", "data.test")
    if source == "embedded":
        return "sentences of the embedded grammar"
    if source == "text":
        return f"text files {files}" + (f"; {mixture}" if mixture else "")
    if source == "tfds":
        return config.all("{} of TFDS", "data.name") + f", its splits {files}"
    return source


def _sizes(config: _Settings, records: Sequence[Mapping[str, Any]]) -> str:
    """How many sentences each split has; older records have fewer numbers."""
    found: dict[str, Any] = {}
    if config["data.source"] == "embedded" and (known := config["data.train_pairs"]):
        found["train"] = known
    for record in records[:1]:
        scored = record.get("scores", {}).get("test", {}).get("sentences")
        found |= {"test": scored} if type(scored) is int else {}
        found |= record.get("examples", {})
    words = [
        f"{_number(found[split])} {what}" for split, what in _SPLITS if found.get(split) is not None
    ]
    pairs = "pairs" if config["data.task"] == "translation" else "sentences"
    return f"{pairs}: {', '.join(words)}" if words else ""


def _vocabulary(config: _Settings) -> str:
    vocabulary = config.all("a {} vocabulary of {}", "data.vocabulary_kind", "data.vocabulary_size")
    return f"{vocabulary} pieces" if vocabulary else ""


def _model(config: _Settings) -> Iterator[str]:
    yield config.unless(1, "ensembles of {} models", "model.ensemble_size")
    match config["model.family"]:
        case "decoder_only":
            yield config.all("{} layers", "model.num_decoder_layers")
        case "encoder_only":
            yield config.all("{} layers", "model.num_encoder_layers")
        case _:
            layers = "{} layers of encoder and {} of decoder"
            yield config.all(layers, "model.num_encoder_layers", "model.num_decoder_layers")
    yield config.all("d_model {}", "model.d_model")
    if config["model.family"] == "recurrent":
        yield config.all("{} cells", "model.recurrent_cell")
        yield config.all("dropout {}", "model.dropout_rate")
        return
    yield config.all("d_ff {}", "model.d_ff")
    heads = "{} heads with d_k {} and d_v {}"
    yield config.all(heads, "model.num_heads", "model.d_k", "model.d_v")
    yield config.all("{} positions", "model.positions")
    yield config.all("{}-norm", "model.norm")
    yield config.all("dropout {}", "model.dropout_rate")


def _training(config: _Settings) -> Iterator[str]:
    yield config.all("{} steps", "training.steps")
    patience = "fewer after {} evaluations without a better dev perplexity"
    yield config.unless(0, patience, "training.patience")
    yield config.all(
        "batches of at most {} source and {} target tokens with padding",
        *("data.source_tokens_per_batch", "data.target_tokens_per_batch"),
    )
    yield config.all("{}", "training.optimizer") or "adam"
    if (schedule := config["training.schedule"]) == "paper":
        yield config.all("the paper's rate times {}", "training.learning_rate_scale")
    elif schedule:
        rate = "rate up to {} by schedule {}"
        yield config.all(rate, "training.peak_learning_rate", "training.schedule")
    yield config.all("{} steps of warm-up", "training.warmup_steps")
    yield config.all("label smoothing {}", "training.label_smoothing")
    yield config.all("{}", "model.dtype")
    yield config.unless("highest", "products at {} precision", "devices.matmul_precision")


def _search(config: _Settings) -> Iterator[str]:
    yield config.all("beam of {}", "decoding.beam_size")
    formula = "length penalty {} ({})"
    yield config.all(formula, "decoding.length_penalty", "decoding.length_penalty_formula")
    yield config.unless("float32", "weights in {}", "decoding.weights_dtype")
    yield (
        config.unless(1, "the mean of the last {} checkpoints", "decoding.average_checkpoints")
        or "the last checkpoint"
    )
