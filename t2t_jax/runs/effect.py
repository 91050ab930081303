"""Which keys of a config are read, depending on the values of others; the rest have no effect.

Setting a key that is not read is refused before any work begins. Keys from a file are not checked:
every config has all keys, and a table changes what is read.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from t2t_jax.json_files import flat_dict
from t2t_jax.runs.keys import DROPOUT_AND_START


class Condition(NamedTuple):
    """A key is read only if another has one of `values`, or, if `negated`, none of them."""

    other: str
    values: tuple[Any, ...]
    negated: bool

    def holds(self, config: Mapping[str, Any]) -> bool:
        """Whether it holds in a flat config; also true if the other key is missing."""
        return self.other not in config or (config[self.other] in self.values) != self.negated

    def __str__(self) -> str:
        return f"{self.other} is {'not ' * self.negated}{' or '.join(map(repr, self.values))}"


def _where(other: str, *values: Any) -> Condition:
    return Condition(other, values, negated=False)


def _unless(other: str, *values: Any) -> Condition:
    return Condition(other, values, negated=True)


_TRANSLATES = _where("data.task", "translation")
_MASKED = _where("data.task", "masked_language_modelling")  # whose head has a norm of its own
_CLASSIFIES = _where("data.task", "classification")
_EMBEDDED = _where("data.source", "embedded")
_NOT_EMBEDDED = _unless("data.source", "embedded")
_NOT_RECURRENT = _unless("model.family", "recurrent")
_RECURRENT = _where("model.family", "recurrent")
_HAS_BETAS = _unless("training.optimizer", "adafactor")
_IS_BEAM = _unless("decoding.beam_size", 1)

# All conditions of a key must hold.
READ_WHERE: dict[str, tuple[Condition, ...]] = {
    "data.name": (_where("data.source", "tfds"),),
    **dict.fromkeys(("data.directory", "data.mixture"), (_NOT_EMBEDDED,)),
    **dict.fromkeys(("data.train", "data.dev", "data.test"), (_NOT_EMBEDDED,)),
    "data.source_language": (_unless("data.task", "language_modelling"),),
    "data.target_language": (_where("data.task", "translation", "language_modelling"),),
    **dict.fromkeys(("data.corpus_seed", "data.train_pairs"), (_EMBEDDED,)),
    "data.packed_length": (_where("data.batching", "packed"),),
    "data.source_tokens_per_batch": (_unless("data.task", "language_modelling"),),
    "data.mask_rate": (_MASKED,),
    "model.num_encoder_layers": (_unless("model.family", "decoder_only"),),
    "model.num_decoder_layers": (_unless("model.family", "encoder_only"),),
    **dict.fromkeys(
        (
            *("model.num_heads", "model.d_k", "model.d_v", "model.score_divisor"),
            *("model.feed_forward", "model.residual", "model.norm_kind"),
            *("model.num_self_attentions", "model.positions", "model.norm", "model.norm_epsilon"),
            *("model.activation", "model.attention_init", "model.attention_biases"),
            *("model.embedding_norm", "model.rematerialise", "model.fused_projections"),
            *("model.scan_layers", "model.attention_dropout_rate"),
        ),
        (_NOT_RECURRENT,),
    ),
    **dict.fromkeys(
        ("model.d_ff", "model.feed_forward_biases", "model.feed_forward_dropout_rate"),
        (_NOT_RECURRENT, _where("model.feed_forward", True)),
    ),
    "model.first_position": (
        _NOT_RECURRENT,
        _where(
            "model.positions",
            *("sinusoidal", "sinusoidal_concatenated", "sinusoidal_tensor2tensor"),
        ),
    ),
    **dict.fromkeys(
        ("model.relative_buckets", "model.relative_max_distance"),
        (_NOT_RECURRENT, _where("model.positions", "relative")),
    ),
    "model.attention_kernel": (_NOT_RECURRENT, _where("model.dtype", "bfloat16")),
    "model.max_positions": (_NOT_RECURRENT, _where("model.positions", "learned", "scaled")),
    **dict.fromkeys(
        ("model.tied_embeddings", "model.scale_logits", "model.output_bias"),
        (_unless("data.task", "classification"),),
    ),
    "model.pooling": (_where("model.family", "encoder_only"),),
    **dict.fromkeys(("model.pooler_activation", "model.num_classes"), (_CLASSIFIES,)),
    "model.dropout_bits": (),
    **dict.fromkeys(("model.recurrent_cell", "model.recurrent_attention"), (_RECURRENT,)),
    "training.label_smoothing_mass": (_unless("training.label_smoothing", 0.0),),
    "training.logits_dtype": (_where("model.dtype", "bfloat16"),),
    "training.learning_rate_scale": (_where("training.schedule", "paper"),),
    "training.peak_learning_rate": (_unless("training.schedule", "paper"),),
    **dict.fromkeys(("training.adam_beta1", "training.adam_beta2"), (_HAS_BETAS,)),
    "training.adam_epsilon": (_where("training.optimizer", "adam", "adamw", "muon"),),
    "training.weight_decay": (_unless("training.optimizer", "adam"),),
    "training.checkpoint_every_steps": (_where("training.checkpoint_every_minutes", 0.0),),
    "training.max_nonfinite": (_unless("training.nonfinite", "stop"),),
    **dict.fromkeys(("decoding.beam_size", "decoding.n_best"), (_TRANSLATES,)),
    "decoding.length_penalty": (_TRANSLATES, _IS_BEAM),
    "decoding.length_penalty_formula": (
        *(_TRANSLATES, _IS_BEAM),
        _unless("decoding.length_penalty", 0.0),
    ),
    "decoding.max_extra_tokens": (_TRANSLATES, _where("decoding.max_tokens", 0)),
    "decoding.max_tokens": (_TRANSLATES,),
    "decoding.weights_dtype": (_TRANSLATES, _where("model.dtype", "float32")),
    "decoding.tokens_per_batch": (_unless("data.task", "masked_language_modelling"),),
    **dict.fromkeys(
        ("evaluation.bleu_tokenizer", "evaluation.bleu_lowercase", "evaluation.bleu_on_dev"),
        (_TRANSLATES,),
    ),
    "evaluation.bleu_on_long": (_TRANSLATES, _EMBEDDED),
    "evaluation.num_probes": (_TRANSLATES, _EMBEDDED),
}

# Of these, one must hold too.
READ_IF_ANY: dict[str, tuple[Condition, ...]] = {
    **dict.fromkeys(
        ("model.norm_kind", "model.norm_epsilon"),
        (_unless("model.norm", "none"), _where("model.embedding_norm", True), _MASKED),
    ),
    "model.activation": (_where("model.feed_forward", True), _MASKED),
    "model.dropout_bits": tuple(
        _unless(f"model.{part}dropout_rate", 0.0) for part in ("", "attention_", "feed_forward_")
    ),
}

ALWAYS_READ = frozenset(
    {
        *("seed", "data.task", "data.source", "data.vocabulary_kind", "data.vocabulary_size"),
        *("data.character_coverage", "data.lowercase", "data.vocabulary_sentences"),
        *("data.max_length", "data.cache"),
        *("data.batching", "data.target_tokens_per_batch", "data.length_multiple"),
        "data.num_buckets",  # packed too: dev and test are bucketed
        *("model.family", "model.ensemble_size", "model.vocabulary_rows", "model.d_model"),
        *("model.embedding_init", "model.scale_embeddings", "model.dropout_rate", "model.dtype"),
        *("training.steps", "training.label_smoothing", "training.loss_chunk_tokens"),
        *("training.microbatches", "training.schedule", "training.warmup_steps"),
        *("training.optimizer", "training.gradient_clip_norm", "training.log_every_steps"),
        *("training.evaluate_every_steps", "training.checkpoint_every_minutes"),
        *("training.keep_checkpoints", "training.patience", "training.nonfinite"),
        "decoding.average_checkpoints",
        *("devices.data", "devices.fsdp", "devices.tensor", "devices.compile"),
        "devices.matmul_precision",
    }
)

_KEYS = sorted(READ_WHERE.keys() | ALWAYS_READ)
_OF_CHECKPOINTS = ("keep_checkpoints", "checkpoint_every_steps", "checkpoint_every_minutes")
# Keys that no verb using a trained model reads; the keys of checkpoints are read in the check of a
# config.
_OF_TRAINING = {
    "seed",
    *(key for key in _KEYS if key.startswith("training.")),
    *("evaluation.bleu_on_dev", "evaluation.bleu_on_long"),
} - {f"training.{key}" for key in _OF_CHECKPOINTS}
_OF_CORPUS = {
    *("data.name", "data.directory", "data.mixture", "data.train", "data.dev", "data.test"),
    *("data.corpus_seed", "data.train_pairs", "data.vocabulary_kind", "data.character_coverage"),
    *("data.lowercase", "data.vocabulary_sentences", "data.cache"),
    *("data.batching", "data.packed_length"),
    *("data.source_tokens_per_batch", "data.target_tokens_per_batch", "data.num_buckets"),
    "data.length_multiple",
    "data.mask_rate",
}
_LANGUAGES = {"data.source_language", "data.target_language"}  # of scores, and of Marian's files
_OF_SCORES = {key for key in _KEYS if key.startswith("evaluation.")}
_OF_SEARCH = {
    *("decoding.beam_size", "decoding.n_best", "decoding.length_penalty"),
    *("decoding.length_penalty_formula", "decoding.max_extra_tokens", "decoding.max_tokens"),
    "decoding.weights_dtype",
}
_SHOWN_BY_EXPLAIN = {"decoding.beam_size": 2}  # it shows scores of greedy search as well
_LOSS = {"label_smoothing", "label_smoothing_mass", "loss_chunk_tokens", "logits_dtype"}
_LOSS |= {"microbatches"}

# Of a verb that is given its text.
_OF_TEXT = frozenset(_OF_TRAINING | DROPOUT_AND_START | _OF_CORPUS | _LANGUAGES | _OF_SCORES)

# For each verb that uses a trained model, keys it certainly does not read; others it may read.
NOT_READ_BY: dict[str, frozenset[str]] = {
    "export": frozenset(_OF_TRAINING | _OF_CORPUS | _OF_SCORES | {"decoding.weights_dtype"}),
    "translate": _OF_TEXT,
    # --control draws projections.
    "explain": _OF_TEXT - {"model.attention_init"} | {"decoding.weights_dtype"},
    **dict.fromkeys(("generate", "classify"), _OF_TEXT | _OF_SEARCH),
    "score": frozenset(_OF_TRAINING - {f"training.{name}" for name in _LOSS} | DROPOUT_AND_START),
}

# True unless set: to ask for something is to set them to False.
ASKED_BY_FALSE = frozenset(
    {
        *("model.feed_forward", "model.residual", "model.attention_biases"),
        *("model.feed_forward_biases", "model.recurrent_attention"),
    }
)


def unmet(key: str, config: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions that keep a key of a flat config from being read; none if it is read.

    If there are several, one of them would do. A key not listed here counts as read.
    """
    for condition in READ_WHERE.get(key, ()):
        if not condition.holds(config):
            return (condition,)
    of_these = READ_IF_ANY.get(key, ())
    return () if any(condition.holds(config) for condition in of_these) else of_these


def why_unread(key: str, config: Mapping[str, Any]) -> str | None:
    """Why a key of a flat config is not read, a sentence without its subject; None if it is."""
    reasons = unmet(key, config)
    if not reasons:
        return None
    there = " and ".join(f"{reason.other}={config[reason.other]!r}" for reason in reasons)
    only_where = " or ".join(map(str, reasons))
    return f"has no effect where {there}: it is read only where {only_where}"


def asks_for_nothing(key: str, value: Any) -> bool:
    """Whether a value may be given to a key that is not read: 0, "", False where it is usual."""
    return not value and not (value is False and key in ASKED_BY_FALSE)


def check_effect(
    flag: str, given: Collection[str], configs: Sequence[ConfigDict], verb: str = ""
) -> None:
    """Refuses keys that were set but are not read, unless they ask for nothing.

    Args:
      flag: the flag that sets the keys, "config" or "base".
      given: the keys that were set.
      configs: the resulting configs: one, or those of all rows.
      verb: the verb of t2t-jax that uses them; "" for one that reads all keys.

    Raises:
      ValueError: a key is read in none of the configs, or not by the verb; says why.
    """
    values = [flat_dict(config.to_dict()) for config in configs]
    for key in given:
        if not values or asks_for_nothing(key, values[0].get(key)):
            continue
        reasons = [why_unread(key, each) for each in values]
        if verb == "explain" and key.startswith("decoding.length_penalty"):
            reasons = [why_unread(key, each | _SHOWN_BY_EXPLAIN) for each in values]
        if None not in reasons:
            raise ValueError(f"--{flag}.{key} {reasons[0]}")
        if key in NOT_READ_BY.get(verb, ()):
            raise ValueError(f"--{flag}.{key} has no effect on {verb}, which does not read it")
