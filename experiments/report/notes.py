"""The notes below a table: how to read it, where it comes from, what is not comparable."""

import contextlib
import hashlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.report.effects import BOOTSTRAP, MARK, MODELS_MARK, SEEDS, WELCH, Effect
from experiments.report.measures import ACCURACY, Measure, by_seed, measures_of
from experiments.run import record
from experiments.run.outcomes import Outcome, records_of
from experiments.tables.paper_base import OF_OTHER_MODELS, config_file
from experiments.tables.registry import find_table
from t2t_jax.json_files import flat_dict
from t2t_jax.runs.keys import WHERE

# Keys that do not affect the scores of a translation model.
_OF_NO_MATTER = (
    WHERE
    | OF_OTHER_MODELS
    | {
        *("seed", "data.directory", "data.mask_rate", "training.keep_checkpoints"),
        *("decoding.n_best", "decoding.tokens_per_batch"),
        *("evaluation.bleu_on_dev", "evaluation.bleu_on_long", "evaluation.num_probes"),
    }
)

# Keys that do not affect them as long as another key has this value.
_OF_NO_MATTER_WITH = {
    "data.packed_length": ("data.batching", "bucketed"),
    "training.peak_learning_rate": ("training.schedule", "paper"),
    "training.evaluate_every_steps": ("training.patience", 0),
    "training.checkpoint_every_steps": ("decoding.average_checkpoints", 1),
    "training.checkpoint_every_minutes": ("decoding.average_checkpoints", 1),
}

# Keys that change how certain a model is of what it gets right.
_OF_CERTAINTY = (
    *("model.dropout_rate", "model.attention_dropout_rate", "model.feed_forward_dropout_rate"),
    "training.label_smoothing",
)

# Keys that affect them only if another key has this value.
_MATTERS_WITH = {
    "data.corpus_seed": ("data.source", "embedded"),
    "data.train_pairs": ("data.source", "embedded"),
}


def notes(
    outcomes: Sequence[Outcome],
    has_paper_base: bool,
    effects: Mapping[str, Mapping[str, Effect]],
    of_tuning: Sequence[Outcome] = (),
) -> list[str]:
    """Sentences below a table.

    Args:
      outcomes: the runs at rows' own values.
      effects: of these, by name of the measure and of the row.
      of_tuning: trials, and runs at the values that these chose.
    """
    records = records_of(outcomes)
    if not records:
        return []
    sentences = [
        "PPL: perplexity per token of the dev split; BLEU and probes: percent. Differences (Δ) are "
        "to the base row. ±: half of the 95 % confidence interval of the mean over n seeds "
        "(Student's t), not the standard deviation; one seed has none. Seconds and tokens/s "
        "include evaluations of dev, and compilation, which is short where an earlier run has left "
        "what it compiled.",
        *how_tested([effect for by_row in effects.values() for effect in by_row.values()]),
        *smallest(measures_of(outcomes), effects),
        *not_all_seeds(records, effects),
        *_not_all_scored(outcomes),
        *_bootstrapped(effects),
        *_certainty(records),
        *([_ACCURACY] if any(ACCURACY.value(values) is not None for values in records) else []),
        *([_OPERATIONS] if any(values.get("operations") for values in records) else []),
        *([_PROBES] if any(map(_has_probes, records)) else []),
    ]
    if not any(values["row"] == "base" for values in records):
        sentences.append("The base row has no finished run, hence there are no differences to it.")
    sentences += _provenance([each for each in (*outcomes, *of_tuning) if each.record is not None])
    if has_paper_base:
        sentences.append(_paper_note(outcomes[0].run.table, outcomes[0].run.base))
    return sentences


def hardware(outcomes: Sequence[Outcome]) -> list[str]:
    """The hardware that the finished runs were trained on, by row if it differs."""
    found = [(_who(each), each.record.get("hardware")) for each in outcomes if each.record]
    return _one_or_mixed("hardware", "Hardware", found)


def _who(outcome: Outcome) -> str:
    """What a run is called where runs of one origin are named."""
    kinds = {"fixed": outcome.run.row, "trial": "trials", "tuned": "runs at chosen values"}
    return kinds[outcome.run.kind]


def _provenance(finished: Sequence[Outcome]) -> list[str]:
    """What the numbers come from, and what keeps some from being compared."""
    runs = [(_who(each), each.record or {}) for each in finished]
    records = [values for _, values in runs]
    found = []
    facts = [
        ("direction", "Direction", lambda values: values.get("direction")),
        ("BLEU signatures", "BLEU signature", _signature),
        ("vocabularies", "Vocabulary", lambda values: values.get("vocabulary_fingerprint")),
        *([] if _data_follow(records) else [_DATA]),
    ]
    for plural, label, value in facts:
        found += _one_or_mixed(plural, label, [(who, value(values)) for who, values in runs])
    for measure in measures_of(finished):
        if measure.is_bleu and measure.split != "test":
            texts = [(who, _text_of(measure, values)) for who, values in runs]
            if len({text for _, text in texts} - {None}) > 1:
                plural = f"texts or signatures of {measure.title}"
                found += _one_or_mixed(plural, "", texts, "they are not comparable")
    found += _one_or_mixed("commits", "Commit", [(_who(each), _commit(each)) for each in finished])
    if any("-dirty" in f"{v.get('commit')} {v.get('earlier_commits')}" for v in records):
        found.append(_DIRTY)
    for name in sorted({name for values in records for name in values.get("versions", {})}):
        versions = [(who, values.get("versions", {}).get(name)) for who, values in runs]
        if len({version for _, version in versions} - {None}) > 1:
            found += _one_or_mixed(f"versions of {name}", "", versions)
    return found


def _text_of(measure: Measure, values: dict[str, Any]) -> str | None:
    """What BLEU on a split is of: how it was tokenised, and the text."""
    scores = values.get("scores", {}).get(measure.split, {})
    files = scores.get("sha256") and f"files {_digits(str(scores['sha256']).encode())}"
    return ", ".join(filter(None, (scores.get("bleu_signature"), files))) or None


def _commit(outcome: Outcome) -> str | None:
    """A run's commit, with what tells changed code from other changed code."""
    values = outcome.record or {}
    if (commit := values.get("commit")) is None:
        return None
    if commit.endswith("-dirty"):
        with contextlib.suppress(OSError):
            commit += f" {_digits((outcome.directory / record.DIFF_FILE).read_bytes())}"
    earlier = values.get("earlier_commits")
    return f"{commit}, begun or continued at {earlier}" if earlier else commit


def _digits(content: bytes) -> str:
    """Enough of a SHA-256 to tell contents apart."""
    return hashlib.sha256(content).hexdigest()[:8]


def how_tested(effects: Sequence[Effect]) -> list[str]:
    """How differences were tested."""
    used = {effect.test for effect in effects}
    if not effects:
        return []
    if used == {""}:
        return [
            "No difference was tested: that takes two seeds or more of a row and of the base, or "
            "of BLEU a seed that both have, with the sentences of the translations on record, and "
            "finite numbers that are not all the same on each side."
        ]
    sentences = []
    if used & {SEEDS, WELCH}:
        seeds = ", over the same seeds," if used & {SEEDS, WELCH} == {SEEDS} else ""
        sentences.append(
            f"{MARK}: differs from the base row{seeds} at the 5 % level for all "
            "rows of a measure together (docs/STATISTICS.md); PPL by its logarithm. Without it no "
            "difference was seen, which is not to say that there is none."
        )
    if BOOTSTRAP in used:
        sentences.append(
            f"{MODELS_MARK}: these two models, of one seed each, differ in BLEU on these "
            "sentences, by a paired bootstrap over them, at the 5 % level for all rows "
            "together. Whether the rows differ takes two seeds or more of each."
        )
    return sentences


def smallest(
    measures: Sequence[Measure], effects: Mapping[str, Mapping[str, Effect]], where: str = "here"
) -> list[str]:
    """The differences that noise would have hidden, for measures with a column of differences."""
    parts = []
    for measure in measures:
        its = effects.get(measure.name, {}).values()
        found = [e.smallest for e in its if e.test in (SEEDS, WELCH) and e.smallest is not None]
        if measure.difference and found:
            middle, low, high = (
                f"{value:.{measure.digits}f}"
                for value in (statistics.median(found), min(found), max(found))
            )
            by_row = f" ({low} to {high} by row)" if low != high else ""
            parts.append(f"{middle} {measure.short}{by_row}")
    if not parts:
        return []
    return [f"Differences under {' and '.join(parts)} cannot be told from noise {where}."]


def not_all_seeds(
    records: Sequence[dict[str, Any]], effects: Mapping[str, Mapping[str, Effect]]
) -> list[str]:
    """Which rows have other seeds than base's, and what their differences are over."""
    tests = {(row, its[row].test) for its in effects.values() for row in its}
    independent = sorted(row for row, test in tests if test == WELCH)
    seeds: dict[str, set[int]] = {}
    for values in records:
        seeds.setdefault(values["row"], set()).add(values["seed"])
    some = sorted(
        row
        for row in {row for row, test in tests if test in (SEEDS, "")}
        if seeds[row] != seeds["base"] and seeds[row] & seeds["base"]
    )
    found = []
    if some:
        found.append(
            f"Not the same seeds as base ({', '.join(some)}): the difference is over those that "
            "both have, the mean over all."
        )
    if independent:
        found.append(
            f"Fewer than two seeds in common with base ({', '.join(independent)}): compared by "
            "Welch's test of independent seeds, which sees less."
        )
    return found


def _not_all_scored(outcomes: Sequence[Outcome]) -> list[str]:
    """Measures of fewer seeds than n, such as those of a test set scored before the last seeds."""
    by_row: dict[str, list[Outcome]] = {}
    for each in outcomes:
        if each.record is not None:
            by_row.setdefault(each.run.row, []).append(each)
    found = []
    for measure in measures_of(outcomes):
        counts = {row: len(by_seed(measure, its)) for row, its in by_row.items()}
        fewer = [f"{row} {n}" for row, n in counts.items() if 0 < n < len(by_row[row])]
        if fewer:
            found.append(f"{measure.title} is of fewer seeds than n: {', '.join(fewer)}.")
    return found


def _bootstrapped(effects: Mapping[str, Mapping[str, Effect]]) -> list[str]:
    tests: dict[str, set[str]] = {}
    for by_row in effects.values():
        for row, effect in by_row.items():
            tests.setdefault(effect.test, set()).add(row)
    if BOOTSTRAP not in tests:
        return []
    is_all = not tests.keys() & {SEEDS, WELCH}
    which = "" if is_all else f" ({', '.join(sorted(tests[BOOTSTRAP]))})"
    return [
        f"A bootstrap over sentences{which} compares two runs of the same seed, and so does the "
        "difference beside it. It knows nothing of the noise between seeds, which may be larger: "
        "two seeds or more are worth more than it."
    ]


def _certainty(records: Sequence[dict[str, Any]]) -> list[str]:
    """What rows of another dropout or label smoothing get right: perplexity may hide it."""
    right: dict[str, list[float]] = {}
    smoothed = set()
    for values in records:
        row, config = values["row"], flat_dict(values["config"])
        accuracy = values.get("scores", {}).get("dev", {}).get("accuracy")
        is_of_tokens = config.get("data.task") != "classification"
        is_of_these = row == "base" or any(key in values["changes"] for key in _OF_CERTAINTY)
        if accuracy is not None and is_of_tokens and is_of_these:
            right.setdefault(row, []).append(100 * accuracy)
            if config.get("training.label_smoothing"):
                smoothed.add(row)
    others = [row for row in right if row != "base" and smoothed & {row, "base"}]
    if "base" not in right or not others:
        return []
    found = (f"{row} {statistics.fmean(right[row]):.1f} %" for row in ("base", *others))
    return [
        "PPL also measures how certain a model is, which label smoothing and dropout change by "
        f"themselves. Tokens of dev that are predicted right: {', '.join(found)}."
    ]


_ACCURACY = (
    "accuracy: share of the tokens to be predicted that are guessed right; for a classifier, of "
    "sentences, and its PPL is per sentence."
)
_OPERATIONS = (
    "TFLOP: 10^12 multiplications and additions of the matrix products of all updates, forward and "
    "backward, of every sentence by itself; with padding: as they were computed."
)
_PROBES = (
    "order, pronoun, sense: probes, how often the right translation is likelier than one that is "
    "wrong in this alone; guessing gives 50 %. Where a statement is to be told from a question of "
    "the same words, the final mark gives it away, so a model blind to order scores 66 %."
)


def _has_probes(values: dict) -> bool:
    return bool(values.get("scores", {}).get("test", {}).get("probes"))


_DIRTY = (
    "-dirty: the code had changes that were not committed, with the first digits of their SHA-256 "
    f"if they are known; they lie beside the record, in {record.DIFF_FILE}."
)

_DATA = ("data", "Data", lambda values: values.get("data_fingerprint"))


def _data_follow(records: Sequence[dict[str, Any]]) -> bool:
    """Whether the data differ only by vocabulary: they are its token ids."""
    vocabularies = {values.get("vocabulary_fingerprint") for values in records}
    pairs = {(v.get("vocabulary_fingerprint"), v.get("data_fingerprint")) for v in records}
    return 1 < len(vocabularies) == len(pairs)


def _signature(values: dict) -> str | None:
    return values.get("scores", {}).get("test", {}).get("bleu_signature")


_COMPARABLE = {
    "vocabularies": "perplexities and accuracies are not comparable",
    "direction": "scores are not comparable",
    "BLEU signatures": "BLEU is not comparable",
    "data": "scores are comparable only if dev and test are the same",
}


def _one_or_mixed(
    plural: str, label: str, found: Sequence[tuple[str, str | None]], why: str | None = None
) -> list[str]:
    rows_by_value: dict[str, list[str]] = {}
    for row, value in found:
        if value is not None:
            rows_by_value.setdefault(str(value), []).append(row)
    if not rows_by_value:
        return []
    if len(rows_by_value) == 1:
        return [f"{label}: {next(iter(rows_by_value))}."]
    parts = [f"{value} ({', '.join(dict.fromkeys(rows))})" for value, rows in rows_by_value.items()]
    why = why or _COMPARABLE.get(plural)
    head = f"Warning: mixed {plural}, {why}" if why else f"Mixed {plural}"
    return [f"{head}: {'; '.join(parts)}."]


def matters(key: str, base: Mapping[str, Any]) -> bool:
    """Whether scores depend on a dotted key, in a base with these values."""
    if key in _OF_NO_MATTER_WITH:
        other, value = _OF_NO_MATTER_WITH[key]
        return base.get(other, value) != value
    if key in _MATTERS_WITH:
        other, value = _MATTERS_WITH[key]
        return base.get(other) == value
    return key not in _OF_NO_MATTER


def _paper_note(table_name: str, base: dict[str, Any]) -> str:
    """Where the base, which has the paper's model, differs from the paper's otherwise."""
    table = find_table(table_name)
    here = flat_dict(base)
    differences = [
        f"{key.partition('.')[2]}={here[key]} (configs/base.py: {value})"
        for key, value in config_file("base").items()
        if here.get(key, value) != value and matters(key, here)
    ]
    where = f"The paper's numbers are of {table.paper_test}, BLEU by its own script"
    if not differences:
        return f"{where}."
    return f"{where}; this base has the paper's model, but {', '.join(differences)}."
