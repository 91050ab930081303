"""Where reproductions differ from the paper and from each other: one row per answer.

    python -m experiments.sweep discrepancies --base=configs/base.py --dry_run
    python -m experiments.sweep discrepancies --base=configs/tiny.py --rows='base,norm*' --workdir=W

Every question below has the paper's answer, if the paper gives one, and those of others. A row
gives one answer and keeps the rest of the base; an answer that the base already gives has no row.
At the end are whole recipes, rows that answer many questions at once: `t2t_2017` (tensor2tensor as
published with the paper), `t2t_head` (as it is today), `fairseq` and `flax_wmt`. They differ from
the base only in the questions below: sizes, data and direction stay the base's.

Numbers that the paper states for its own base (warm-up, batch and vocabulary) are shares of the
base here; with `configs/base.py`, the shares are the numbers of the named source.

Some differences have no row, because no config key covers them. `data.directory` decides on the
sentences, and all of dev and test count (flax's wmt example leaves out the long ones). Perplexities
are comparable only with the same vocabulary, so not for the rows that change it. BLEU on subwords
given the right prefix (approx_bleu) is not BLEU and not among our scores. The script behind the
paper's BLEU splits compounds at hyphens before it counts; sacreBLEU does not, and gives about one
point less, equally for every row.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Table, differing
from t2t_jax.training.config import SCHEDULES_WITH_AN_END

_Changes = Mapping[str, Any]

# The paper's base, which the shares below refer to.
_PAPER_TOKENS_PER_BATCH = 25_000
_PAPER_VOCABULARY = 37_000
_PAPER_PEAK = (512 * 4_000) ** -0.5  # learning rate at the end of warm-up


class Answer(NamedTuple):
    """One answer to a question."""

    changes: _Changes | str  # or a sentence saying why they do not fit the base
    who: str  # who gives this answer


def questions(base: AnyConfig) -> dict[str, dict[str, Answer]]:
    """Each question's answers by name, with the changes to `base` they need."""
    return _of_the_model(base) | _of_training(base) | _of_translation(base)


def _of_the_model(base: AnyConfig) -> dict[str, dict[str, Answer]]:
    """The computation, and its initialisation."""
    return {
        # How are sines and cosines arranged in a position's vector, with which frequencies, and
        # what is the first position's number?
        "sinusoids": {
            "interleaved": _sinusoids("sinusoidal", 0, "the paper"),
            "concatenated": _sinusoids("sinusoidal_concatenated", 0, "Sockeye, HF Marian"),
            "t2t": _sinusoids("sinusoidal_tensor2tensor", 0, "tensor2tensor, flax wmt"),
            "t2t_from_1": _sinusoids("sinusoidal_tensor2tensor", 1, "CTranslate2's own"),
            "t2t_from_2": _sinusoids("sinusoidal_tensor2tensor", 2, "fairseq"),
        },
        # Is the layer norm after the residual sum, or before the sub-layer?
        "norm": {
            "post": Answer({"model.norm": "post"}, "the paper, fairseq"),
            "pre": Answer(
                {"model.norm": "pre"}, "tensor2tensor since 2017-08, flax wmt, OpenNMT-py"
            ),
        },
        # Is there dropout inside the sub-layers too, on attention weights and hidden units?
        "inner_dropout": {
            "no": _inner_dropout(0.0, "the paper, fairseq"),
            "yes": _inner_dropout(
                base.model.dropout_rate or 0.1, "tensor2tensor since its version 2, flax wmt"
            ),
        },
        # Is the table small and its vectors scaled up, or large and the logits scaled down?
        "embedding_scale": {
            "vectors": Answer(
                {
                    "model.embedding_init": "inverse_sqrt_d_model",
                    "model.scale_embeddings": True,
                    "model.scale_logits": False,
                },
                "the paper, tensor2tensor, fairseq",
            ),
            "logits": Answer(
                {
                    "model.embedding_init": "unit",
                    "model.scale_embeddings": False,
                    "model.scale_logits": True,
                },
                "flax wmt",
            ),
        },
        # Are query, key and value initialised as one matrix, and so sqrt(2) smaller, or as three?
        "projection_init": {
            "fused": Answer({"model.attention_init": "fused"}, "tensor2tensor of 2017, fairseq"),
            "separate": Answer(
                {"model.attention_init": "separate"}, "tensor2tensor today, flax wmt"
            ),
        },
        # Do the projections of attention have biases?
        "projection_biases": {
            "yes": Answer({"model.attention_biases": True}, "tensor2tensor of 2017, fairseq, HF"),
            "no": Answer({"model.attention_biases": False}, "tensor2tensor today, flax wmt"),
        },
        # What does layer norm add to the variance?
        "norm_epsilon": {
            "1e-6": Answer({"model.norm_epsilon": 1e-6}, "tensor2tensor, flax wmt"),
            "1e-5": Answer({"model.norm_epsilon": 1e-5}, "PyTorch, fairseq, HF"),
        },
    }


def _of_training(base: AnyConfig) -> dict[str, dict[str, Answer]]:
    """The data, and how the model learns from it."""
    return {
        # How many pieces does the vocabulary have, and hence rows the embedding?
        "vocabulary": {
            "32768": _vocabulary(base, 32_768, "tensor2tensor and fairseq, of 37,000"),
            "32000": _vocabulary(base, 32_000, "flax wmt, of 37,000"),
        },
        # How many tokens are in a batch?
        "batch": {
            "8x4096": _batch(base, Fraction(8 * 4_096), "tensor2tensor on 8 GPUs, of 25,000"),
            "8x32x256": _batch(base, Fraction(8 * 32 * 256), "flax wmt on 8 TPUs, of 25,000"),
            "an_eighth": _batch(
                base, Fraction(_PAPER_TOKENS_PER_BATCH, 8), "the paper's steps on one GPU"
            ),
        },
        # How long is the warm-up, and how high is the rate at its end?
        "schedule": {
            # transformer_base_v3: warm-up 8,000 instead of 4,000 and a constant of 2, hence a
            # peak sqrt(2) times as high.
            "t2t": _schedule(base, Fraction(2), 2**0.5, "tensor2tensor's version 3"),
            # Its default config: 0.002 after 1,000 steps.
            "flax_wmt": _schedule(base, Fraction(1, 4), 0.002 / _PAPER_PEAK, "flax wmt"),
        },
        # How slowly does Adam forget squared gradients?
        "adam_beta2": {
            "0.98": Answer({"training.adam_beta2": 0.98}, "the paper, fairseq, flax wmt"),
            "0.997": Answer({"training.adam_beta2": 0.997}, "tensor2tensor's version 3"),
        },
        # What is added to the root of the squared gradients?
        "adam_epsilon": {
            "1e-9": Answer({"training.adam_epsilon": 1e-9}, "the paper, tensor2tensor, flax"),
            "1e-8": Answer({"training.adam_epsilon": 1e-8}, "fairseq"),
        },
        # Which rows of the vocabulary share the mass of label smoothing?
        "smoothing_mass": {
            "others": _smoothing_mass("others", "tensor2tensor, fairseq, flax wmt"),
            "all": _smoothing_mass("all", "PyTorch, optax"),
            "others_but_padding": _smoothing_mass(
                "others_but_padding", "JoeyNMT, the Annotated Transformer"
            ),
        },
    }


def _of_translation(base: AnyConfig) -> dict[str, dict[str, Answer]]:
    """How a trained model is used and scored."""
    return {
        # What divides the log-probability of n tokens, with the same alpha?
        "length_penalty": {
            "gnmt": Answer(
                {"decoding.length_penalty_formula": "gnmt"}, "the paper, tensor2tensor, flax"
            ),
            "power": Answer(
                {"decoding.length_penalty_formula": "power"},
                "fairseq, HF transformers, CTranslate2, Marian",
            ),
        },
        # After how many tokens must a translation end?
        "longest_output": {
            "source+50": _longest_output(50, 0, "the paper"),
            "source+100": _longest_output(100, 0, "tensor2tensor today"),
            "256": _longest_output(base.decoding.max_extra_tokens, 256, "flax wmt"),
            # Its 200 do not include the end token.
            "201": _longest_output(base.decoding.max_extra_tokens, 201, "fairseq"),
        },
        # How many last checkpoints are averaged for translation?
        "averaging": {
            "1": Answer(averaging(base, 1, base.training.steps), "the paper's Table 3"),
            "5": Answer(averaging(base, 5, base.training.steps), "the paper's Table 2"),
            "10": Answer(averaging(base, 10, base.training.steps), "fairseq"),
        },
        # How is a translation split into words before counting?
        "bleu": {
            "13a": Answer({"evaluation.bleu_tokenizer": "13a"}, "sacreBLEU"),
            "intl": Answer({"evaluation.bleu_tokenizer": "intl"}, "sacreBLEU on request"),
        },
    }


# Answers by question. Questions not named are left to the base: the source does not answer them, or
# gives the paper's number, which is a share of 1.
RECIPES: dict[str, dict[str, str]] = {
    # github.com/tensorflow/tensor2tensor 3d9c62f2 (2017-06-15), `transformer_base`, and the flags
    # of its trainer; its learning rate of 0.1 is the paper's equation 3.
    "t2t_2017": {
        "sinusoids": "t2t",  # common_attention.add_timing_signal_1d
        "norm": "post",  # transformer.residual_fn: layer_norm(x + dropout(y))
        "inner_dropout": "no",  # attention_dropout = relu_dropout = 0.0
        "adam_beta2": "0.98",  # optimizer_adam_beta2
        "adam_epsilon": "1e-9",  # optimizer_adam_epsilon
        "batch": "8x4096",  # batch_size = 4096 tokens on each GPU
        "length_penalty": "gnmt",  # utils/beam_search.py
        "averaging": "1",  # no script for it yet
        "smoothing_mass": "others",  # common_layers.smoothing_cross_entropy
        "embedding_scale": "vectors",  # multiply_embedding_mode = "sqrt_depth"
        "longest_output": "source+50",  # decode_extra_length
        "projection_init": "fused",  # multihead_attention: one qkv_transform; over memory q and kv
        "norm_epsilon": "1e-6",  # common_layers.layer_norm
        "projection_biases": "yes",  # conv1d has them by default
    },
    # github.com/tensorflow/tensor2tensor, last commit of master, `transformer_base` (version 3).
    "t2t_head": {
        "sinusoids": "t2t",  # common_attention.get_timing_signal_1d
        "norm": "pre",  # layer_preprocess_sequence = "n", layer_postprocess_sequence = "da"
        "inner_dropout": "yes",  # attention_dropout = relu_dropout = 0.1
        "schedule": "t2t",  # learning_rate_warmup_steps = 8000, learning_rate_constant = 2.0
        "adam_beta2": "0.997",  # optimizer_adam_beta2
        "adam_epsilon": "1e-9",  # optimizer_adam_epsilon
        "vocabulary": "32768",  # TranslateProblem.approx_vocab_size = 2**15
        "batch": "8x4096",  # batch_size = 4096 tokens on each GPU
        "length_penalty": "gnmt",  # utils/beam_search.py
        "averaging": "1",  # only by a separate script, t2t_avg_all
        "smoothing_mass": "others",  # common_layers.smoothing_cross_entropy
        "embedding_scale": "vectors",  # multiply_embedding_mode = "sqrt_depth"
        "longest_output": "source+100",  # decode_hparams: extra_length
        "projection_init": "separate",  # compute_attention_component, one for each
        "norm_epsilon": "1e-6",  # norm_epsilon
        "projection_biases": "no",  # compute_attention_component: use_bias=False
    },
    # github.com/facebookresearch/fairseq 3d262bb2, architecture `transformer_wmt_en_de` with the
    # flags of examples/scaling_nmt/README.md, which are for the big model: its learning rate of
    # 0.0005 is equation 3's peak there, and the batch is left out.
    "fairseq": {
        "sinusoids": "t2t_from_2",  # get_embedding; positions count from padding_idx + 1
        "norm": "post",  # encoder_normalize_before = decoder_normalize_before = False
        "inner_dropout": "no",  # attention_dropout = activation_dropout = 0.0
        "adam_beta2": "0.98",  # --adam-betas '(0.9, 0.98)'
        "adam_epsilon": "1e-8",  # the default of --adam-eps
        "vocabulary": "32768",  # --nwordssrc 32768 --nwordstgt 32768 --joined-dictionary
        "length_penalty": "power",  # sequence_generator.finalize_hypos; --lenpen 0.6
        "averaging": "10",  # --num-epoch-checkpoints 10
        "smoothing_mass": "others",  # label_smoothed_nll_loss: epsilon / (V - 1)
        "embedding_scale": "vectors",  # std = embedding_dim**-0.5, embed_scale
        "longest_output": "201",  # max_len_a = 0, max_len_b = 200, the end beyond them
        "projection_init": "fused",  # xavier_uniform_ with gain 1 / sqrt(2)
        "norm_epsilon": "1e-5",  # modules/layer_norm.py
        "projection_biases": "yes",  # MultiheadAttention(bias=True)
    },
    # github.com/google/flax 18f8f311, examples/wmt with configs/default.py, whose sizes are the
    # big model's and whose direction is German to English.
    "flax_wmt": {
        "sinusoids": "t2t",  # models.sinusoidal_init
        "norm": "pre",  # Encoder1DBlock, EncoderDecoder1DBlock
        "inner_dropout": "yes",  # attention_dropout_rate = 0.1; MlpBlock has dropout_rate
        "schedule": "flax_wmt",  # learning_rate = 0.002, warmup_steps = 1000
        "adam_beta2": "0.98",  # optax.adamw(b2=0.98), weight_decay = 0
        "adam_epsilon": "1e-9",  # optax.adamw(eps=1e-9)
        "vocabulary": "32000",  # vocab_size
        "batch": "8x32x256",  # per_device_batch_size = 32 packed rows of 256 on a TPU v3-8
        "length_penalty": "gnmt",  # decode.brevity_penalty
        "averaging": "1",  # none
        "smoothing_mass": "others",  # compute_weighted_cross_entropy
        "embedding_scale": "logits",  # nn.Embed of stddev 1.0; logits / sqrt(y.shape[-1])
        "longest_output": "256",  # max_predict_length
        "projection_init": "separate",  # MultiHeadDotProductAttention, xavier_uniform
        "norm_epsilon": "1e-6",  # nn.LayerNorm's default
        "projection_biases": "no",  # use_bias=False
    },
}


def _sinusoids(positions: str, first: int, who: str) -> Answer:
    return Answer({"model.positions": positions, "model.first_position": first}, who)


def _inner_dropout(rate: float, who: str) -> Answer:
    """As much inside the sub-layers as outside, or 0.1 if the base has none."""
    changes = {"model.attention_dropout_rate": rate, "model.feed_forward_dropout_rate": rate}
    return Answer(changes, who)


def _schedule(base: AnyConfig, warmup_share: Fraction, peak_share: float, who: str) -> Answer:
    """Another warm-up, and another learning rate at its end, as shares of the base's."""
    training = base.training
    warmup_steps = max(1, int(warmup_share * training.warmup_steps))
    if training.schedule in SCHEDULES_WITH_AN_END and warmup_steps >= training.steps:
        return Answer(f"warm-up would be {warmup_steps} of {training.steps} steps", who)
    if training.schedule == "paper":
        # Equation 3's peak falls with the square root of the warm-up.
        factor = peak_share * float(warmup_share) ** 0.5
        rate = {"training.learning_rate_scale": _product(factor, training.learning_rate_scale)}
    else:
        rate = {"training.peak_learning_rate": _product(peak_share, training.peak_learning_rate)}
    return Answer({"training.warmup_steps": warmup_steps} | rate, who)


def _vocabulary(base: AnyConfig, size: int, who: str) -> Answer:
    """As many rows as pieces: at the paper's vocabulary size, `size` of each."""
    pieces = round(base.data.vocabulary_size * Fraction(size, _PAPER_VOCABULARY))
    return Answer({"data.vocabulary_size": pieces, "model.vocabulary_rows": pieces}, who)


def _batch(base: AnyConfig, tokens: Fraction, who: str) -> Answer:
    """The share of source and target tokens that `tokens` are of the paper's batch."""
    share = tokens / _PAPER_TOKENS_PER_BATCH
    keys = "source_tokens_per_batch", "target_tokens_per_batch"
    changes = {f"data.{key}": round(share * base.data[key]) for key in keys}
    what, key = "sentence", "max_length"
    if base.data.batching == "packed":
        what, key = "row", "packed_length"
    if min(changes.values()) < base.data[key]:
        reason = f"a batch of {min(changes.values())} tokens has no room for a {what} of "
        return Answer(f"{reason}data.{key}={base.data[key]}", who)
    return Answer(changes, who)


def averaging(base: AnyConfig, number: int, steps: int) -> dict[str, Any] | str:
    """The mean of the last `number` checkpoints of `steps`, which a run must save and keep.

    They come from at most the last tenth of training, as ten do with `configs/base.py`: weights
    still far from the end give a mean worse than any of them. If there are too few steps for that,
    or checkpoints come by the clock, the sentence saying so.
    """
    by_the_clock = base.training.get("checkpoint_every_minutes", 0.0)
    if by_the_clock and number > 1:
        return f"training.checkpoint_every_minutes={by_the_clock} does not say at which steps"
    apart = steps // (10 * number) if number > 1 else steps
    every = min(base.training.checkpoint_every_steps, apart)
    if every == 0:
        return f"{steps} steps leave no {number} checkpoints in their last tenth"
    return {
        "decoding.average_checkpoints": number,
        "training.keep_checkpoints": max(base.training.keep_checkpoints, number),
    } | ({} if by_the_clock else {"training.checkpoint_every_steps": every})


def _smoothing_mass(mass: str, who: str) -> Answer:
    return Answer({"training.label_smoothing_mass": mass}, who)


def _longest_output(extra: int, absolute: int, who: str) -> Answer:
    return Answer({"decoding.max_extra_tokens": extra, "decoding.max_tokens": absolute}, who)


def _product(factor: float, rate: float) -> float:
    # Four digits are more than anyone tunes, and readable in a table.
    return float(f"{factor * rate:.4g}")


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    answers = {
        f"{question}={name}": answer
        for question, of_question in questions(base).items()
        for name, answer in of_question.items()
    }
    rows: list[Row | LeftOut] = [Row("base", {})]
    rows += [_row(base, name, [answer], answer.who) for name, answer in answers.items()]
    for name, recipe in RECIPES.items():
        given = [answers[f"{question}={answer}"] for question, answer in recipe.items()]
        rows.append(_row(base, name, given, ""))
    return rows


def _row(base: AnyConfig, name: str, answers: list[Answer], note: str) -> Row | LeftOut:
    """The row that gives all these answers, with only what differs from the base."""
    changes: dict[str, Any] = {}
    for answer in answers:
        if isinstance(answer.changes, str):
            return LeftOut(name, answer.changes)
        changes |= answer.changes
    return Row(name, differing(changes, base), note=note)


TABLE = Table("discrepancies", "Where reproductions of the paper differ", _rows)
