"""Means, differences and verdicts: numbers recomputed by hand."""

import copy
import json
import math
import re
import shutil

import pytest

from configs import base, tiny
from experiments.report import notes
from experiments.report.measures import ACCURACY, PERPLEXITY, Mean, mean
from experiments.report.rendering.markdown import markdown
from experiments.report.summary import RowSummary, summaries
from experiments.run import record
from experiments.tables import table2, table3
from experiments.tables.ablation import flat
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, write_sweep


@pytest.fixture
def workdir(tmp_path):
    return write_sweep(tmp_path)


def _rows(workdir):
    [table] = summaries(workdir)
    return {row.name: row for row in table.rows}


def test_means_intervals_and_differences_are_those_made_by_hand(workdir):
    rows = _rows(workdir)
    assert list(rows) == ["base", "one_head", "no_positions"]

    # Standard deviations of 0.1 and 1; Student's t of 2 degrees of freedom is 4.30265.
    interval = 4.30265 / math.sqrt(3)
    assert rows["base"].means["dev_perplexity"] == pytest.approx((1.3, 0.1 * interval), rel=1e-5)
    assert rows["base"].means["test_bleu"] == pytest.approx((92.0, interval), rel=1e-5)
    assert rows["base"].effects == {}
    # Of 1 degree of freedom 12.7062; the standard deviations are sqrt(0.02) and sqrt(2).
    means, effects = rows["one_head"].means, rows["one_head"].effects
    assert means["dev_perplexity"] == pytest.approx((1.6, 12.7062 * 0.1), rel=1e-5)
    assert means["test_bleu"] == pytest.approx((89.0, 12.7062), rel=1e-5)
    # Over the two seeds that base has too.
    assert effects["dev_perplexity"].difference == pytest.approx(0.35)
    assert effects["test_bleu"].difference == pytest.approx(-2.5)
    assert rows["no_positions"].means["dev_perplexity"] == Mean(4.0, None)
    assert rows["no_positions"].num_seeds == 1
    assert rows["base"].params == 1.25
    assert rows["base"].costs["seconds"] == 64.0
    assert rows["base"].costs["target_tokens_millions"] == 2.0


def test_a_measure_of_fewer_seeds_than_n_is_told(workdir):
    [table] = summaries(workdir)
    assert not any("fewer seeds than n" in note for note in table.notes)
    path = workdir / TABLE.name / "one_head" / "seed-1" / "record.json"
    values = json.loads(path.read_text())
    del values["scores"]["test"]["bleu"]
    path.write_text(json.dumps(values))
    [table] = summaries(workdir)
    assert "BLEU (test) is of fewer seeds than n: one_head 1." in table.notes


def test_the_search_that_is_told_is_that_of_the_base_row(tmp_path):
    config = base.get_config()
    scores = dict(perplexity=4.0, bleu=20.0)
    fakes.write_record(tmp_path, table2.TABLE, config, "base", 0, **scores)
    [table] = summaries(tmp_path)
    assert any("the mean of the last 5 checkpoints" in sentence for sentence in table.method)


def test_one_seed_has_a_mean_and_no_seed_none():
    assert mean([]) is None
    assert mean([3.0]) == (3.0, None)


def test_probes_are_percent_in_a_table(tmp_path):
    scores = {"test": {"probes": {"order": 0.875}}}
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0, scores=scores)
    assert _rows(tmp_path)["base"].means == {"probe_order": Mean(87.5, None)}


def test_the_logarithm_of_nothing_is_no_number():
    assert math.isnan(PERPLEXITY.compared(0.0))


def test_a_record_without_bleu_has_no_mean_of_it(tmp_path):
    scores = {"dev": {"perplexity": 2.0}}
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=0.0, scores=scores)
    assert _rows(tmp_path)["base"].means == {"dev_perplexity": Mean(2.0, None)}


def _write_seeds(workdir, row, values):
    for seed, (perplexity, bleu) in enumerate(values):
        fakes.write_record(workdir, TABLE, CONFIG, row, seed, perplexity=perplexity, bleu=bleu)


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        ([(1.30, 91.2), (1.29, 92.8), (1.31, 92.1)], "no difference seen at 3 seeds"),
        ([(2.30, 82.0), (2.31, 81.9), (2.29, 82.1)], "PPL and BLEU worse"),
        ([(1.10, 95.0), (1.11, 94.9), (1.09, 95.1)], "PPL and BLEU better"),
        (
            [(2.30, 92.0), (2.31, 93.1)],
            "PPL worse; BLEU no difference seen at 2 seeds against 3 of base",
        ),
        ([(2.30, 95.0), (2.31, 94.9), (2.29, 95.1)], "PPL worse; BLEU better"),
        (
            [(2.30, 92.0), (2.31, 92.0), (2.29, 92.0)],
            "PPL worse; BLEU differs by less than 0.5",
        ),
        ([(2.30, 92.3), (2.31, 92.4), (2.29, 92.21)], "PPL worse; BLEU better by less than 0.5"),
        ([(1.3, 92.0)], "not tested"),
    ],
)
def test_a_row_is_told_in_words(tmp_path, scores, verdict):
    _write_seeds(tmp_path, "base", [(1.30, 92.0), (1.31, 92.1), (1.29, 91.9)])
    _write_seeds(tmp_path, "one_head", scores)
    rows = _rows(tmp_path)
    assert rows["one_head"].verdict == verdict
    assert rows["base"].verdict == ""


def test_groups_are_those_of_the_papers_table():
    rows = table3.TABLE.rows(base.get_config()).rows
    [first, *others] = [_group(row.name) for row in rows]
    assert first == "base"
    assert "".join(group or "-" for group in others) == "AAAABBCCCCCCCDDDDE-"


def _group(name):
    return RowSummary(name, "", 0, None, {}, {}, "", {}, None, []).group


@pytest.mark.parametrize(
    ("fact", "value", "sentence"),
    [
        (
            "vocabulary_fingerprint",
            "v1",
            "Warning: mixed vocabularies, perplexities and accuracies are not",
        ),
        ("direction", "de-en", "Warning: mixed direction, scores are not comparable"),
        ("commit", "fff-dirty", "Mixed commits: 0123abc (base, one_head); fff-dirty"),
        (
            "scores",
            {"dev": {"perplexity": 2.0}, "test": {"bleu": 3.0, "bleu_signature": "other"}},
            "Warning: mixed BLEU signatures, BLEU is not comparable",
        ),
    ],
)
def test_rows_that_cannot_be_compared_are_said(workdir, fact, value, sentence):
    fakes.write_record(
        workdir, TABLE, CONFIG, "no_positions", 0, perplexity=4.0, bleu=60.0, **{fact: value}
    )
    [table] = summaries(workdir)
    assert any(sentence in note for note in table.notes)


@pytest.mark.parametrize(("vocabulary", "is_warned"), [("v1", False), ("v0", True)])
def test_other_data_are_warned_of_unless_the_vocabulary_is_why(workdir, vocabulary, is_warned):
    facts = {"vocabulary_fingerprint": vocabulary, "data_fingerprint": "d1"}
    for seed in range(3):
        fakes.write_record(
            workdir,
            TABLE,
            CONFIG,
            "one_layer",
            seed,
            perplexity=4.0 + seed * seed / 50,
            bleu=60.0 + seed,
            **facts,
        )
    [table] = summaries(workdir)
    assert any("Warning: mixed data" in note for note in table.notes) == is_warned
    verdict = "PPL and BLEU worse" if is_warned else "BLEU worse"
    assert [row.verdict for row in table.rows if row.name == "one_layer"] == [verdict]


def test_departures_from_the_papers_recipe_are_said(tmp_path):
    shorter = base.get_config()
    shorter.training.steps = 1234
    fakes.write_record(tmp_path, table3.TABLE, shorter, "base", 0, perplexity=5.0, bleu=25.0)
    [table] = summaries(tmp_path)
    assert table.notes[-1].endswith("but steps=1234 (configs/base.py: 100000).")


@pytest.mark.parametrize(
    ("key", "value", "note"),
    [
        ("data.train", "train[:1%]", "train=train[:1%] (configs/base.py: train)"),
        ("data.source", "text", "source=text (configs/base.py: tfds)"),
        ("training.patience", 3, "patience=3 (configs/base.py: 0)"),
        ("evaluation.bleu_lowercase", True, "bleu_lowercase=True (configs/base.py: False)"),
        ("training.log_every_steps", 3, "BLEU by its own script."),
        ("training.checkpoint_every_steps", 3, "BLEU by its own script."),
        ("decoding.average_checkpoints", 3, "average_checkpoints=3 (configs/base.py: 1)"),
        ("model.family", "recurrent", None),  # nothing of the paper's
        ("model.num_self_attentions", 2, None),
        ("model.scale_embeddings", False, None),
        ("model.attention_dropout_rate", 0.1, None),
        ("model.norm_epsilon", 1e-5, "norm_epsilon=1e-05 (configs/base.py: 1e-06)"),
        ("model.dtype", "bfloat16", "dtype=bfloat16 (configs/base.py: float32)"),
    ],
)
def test_whatever_sets_a_base_apart_from_the_papers_is_said(tmp_path, key, value, note):
    other = base.get_config()
    other.update_from_flattened_dict({key: value})
    fakes.write_record(tmp_path, table3.TABLE, other, "base", 0, perplexity=5.0, bleu=25.0)
    [table] = summaries(tmp_path)
    assert table.has_paper_base == (note is not None)
    assert note is None or note in table.notes[-1]


def test_what_a_note_leaves_out_is_a_key():
    keys = [*notes._OF_NO_MATTER, *notes._OF_NO_MATTER_WITH, *notes._MATTERS_WITH]
    keys += notes._OF_CERTAINTY
    assert set(keys) <= flat(base.get_config()).keys()


def test_a_key_that_another_one_puts_to_use_is_said(tmp_path):
    other = base.get_config()
    other.training.schedule = "linear"
    other.training.peak_learning_rate = 0.002
    other.data.source = "embedded"
    other.data.train_pairs = 999
    fakes.write_record(tmp_path, table3.TABLE, other, "base", 0, perplexity=5.0, bleu=25.0)
    [table] = summaries(tmp_path)
    assert "peak_learning_rate=0.002" in table.notes[-1]
    assert "train_pairs=999" in table.notes[-1]


def test_a_classifier_is_told_by_its_accuracy(tmp_path):
    for row, shares in (("base", (0.5, 0.51)), ("one_head", (0.99, 0.995))):
        for seed, share in enumerate(shares):
            scores = {"dev": {"perplexity": 1.5}, "test": {"perplexity": 1.4, "accuracy": share}}
            fakes.write_record(
                tmp_path, TABLE, CONFIG, row, seed, perplexity=1.5, bleu=0.0, scores=scores
            )
    [table] = summaries(tmp_path)
    text = markdown([table])
    assert "accuracy (test, %)" in text and "BLEU (test)" not in text
    assert "+48.8 *" in text and "accuracy better" in text
    assert any(note.startswith("accuracy: share of the tokens") for note in table.notes)


@pytest.mark.parametrize("smoothing", [0.1, 0.0])
def test_what_smoothing_and_dropout_hide_in_perplexity_is_said(tmp_path, smoothing):
    config = tiny.get_config()
    config.training.label_smoothing = smoothing
    for row, seed, share in (
        *(("D.dropout=0.1", 0, 0.96), ("A.h=1", 0, 0.9)),
        *(("base", 0, 0.978), ("base", 1, 0.98)),
    ):
        scores = {"dev": {"perplexity": 1.2, "accuracy": share}, "test": {"bleu": 90.0}}
        fakes.write_record(
            tmp_path, table3.TABLE, config, row, seed, perplexity=1.2, bleu=90.0, scores=scores
        )
    [table] = summaries(tmp_path)
    said = [note for note in table.notes if note.startswith("PPL also measures")]
    expected = "predicted right: base 97.9 %, D.dropout=0.1 96.0 %."
    assert [note.endswith(expected) for note in said] == [True] * (smoothing > 0)


def test_failed_missing_and_unasked_rows_are_listed(workdir):
    rows = TABLE.rows(CONFIG)
    run = record.make_run(TABLE, rows.named("one_layer"), CONFIG, 0)
    record.write_run(workdir / run.directory, run)
    [table] = summaries(workdir)
    assert table.unfinished == ["one_layer seed 0 not finished", "not asked for: learned_positions"]
    record.write_json(workdir / run.directory / "failure.json", {"error": "ValueError: boom"})
    (workdir / run.directory / "log.txt").write_text("boom")
    [table] = summaries(workdir)
    log = workdir / run.directory / "log.txt"
    assert table.unfinished[0] == f"one_layer seed 0 failed: ValueError: boom; log: {log}"


def test_rows_this_code_no_longer_knows_come_last(workdir):
    stranger = table3.TABLE._replace(name="quickstart")
    fakes.write_record(workdir, stranger, CONFIG, "A.h=2", 0, perplexity=1.0, bleu=1.0)
    assert list(_rows(workdir))[-1] == "A.h=2"


def test_the_same_table_at_two_bases_is_two_tables(tmp_path):
    other = tiny.get_config()
    other.training.steps = 5
    elsewhere = tiny.get_config()
    elsewhere.data.cache = "elsewhere"
    elsewhere.devices.data = 1
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0)
    fakes.write_record(tmp_path, TABLE, elsewhere, "base", 1, perplexity=1.0, bleu=1.0)
    fakes.write_record(tmp_path, TABLE, other, "one_head", 0, perplexity=1.0, bleu=1.0)
    first, second = summaries(tmp_path / TABLE.name)
    assert first.title.endswith("[steps=1100]") and second.title.endswith("[steps=5]")
    assert (first.base, second.base) == ("steps=1100", "steps=5")
    assert first.rows[0].num_seeds == 2
    assert any("base row has no finished run" in note for note in second.notes)


def test_where_the_changes_of_a_dirty_commit_lie_is_said(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2, bleu=1, commit="a-dirty")
    [table] = summaries(tmp_path)
    assert any(note.endswith("beside the record, in uncommitted.diff.") for note in table.notes)


def test_the_same_run_twice_is_no_second_seed(workdir, tmp_path):
    before = _rows(workdir)
    shutil.copytree(workdir / TABLE.name, workdir / "copy" / TABLE.name)
    [table] = summaries(workdir)
    assert [row.means for row in table.rows] == [row.means for row in before.values()]
    assert "Each seed of a row counts once; left out: " in table.notes[-1]
    # Where one of two is finished, it counts.
    next(workdir.glob("copy/*/base/seed-0/record.json")).unlink()
    assert _rows(workdir)["base"].num_seeds == 3


def test_a_finished_copy_hides_no_divergence(workdir):
    shutil.copytree(workdir / TABLE.name, workdir / "copy" / TABLE.name)
    directory = workdir / TABLE.name / "one_head" / "seed-1"
    (directory / record.RECORD_FILE).unlink()
    record.write_json(directory / record.FAILURE_FILE, {"error": "diverged at step 7: nan"})
    assert _rows(workdir)["one_head"].verdict == "1 of 2 seeds diverged"


def test_other_changes_of_a_commit_and_other_versions_are_told_apart(tmp_path):
    for row, jax in (("base", "1.0"), ("one_head", "1.1")):
        facts: dict = dict(perplexity=2, bleu=1, commit="a-dirty", versions={"jax": jax, "n": "2"})
        directory = fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, **facts)
        (directory / record.DIFF_FILE).write_text(row)
    [table] = summaries(tmp_path)
    said = "\n".join(table.notes)
    assert re.search(r"Mixed commits: a-dirty \w{8} \(base\); a-dirty \w{8} \(one_head\)\.", said)
    assert "Mixed versions of jax: 1.0 (base); 1.1 (one_head)." in said
    assert "versions of n" not in said


def test_a_run_that_went_on_at_another_commit_says_so(tmp_path):
    facts: dict = dict(perplexity=2, bleu=1, commit="b", earlier_commits="a")
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, **facts)
    [table] = summaries(tmp_path)
    assert "Commit: b, begun or continued at a." in table.notes


def test_a_run_of_another_config_is_no_seed_of_its_row(workdir):
    """Two sweeps below one directory, such as those of --equal=steps and --equal=flops."""
    before = _rows(workdir)
    longer = copy.deepcopy(CONFIG)
    longer.training.steps = 2 * CONFIG.training.steps
    path = fakes.write_record(
        workdir / "longer", TABLE, longer, "one_head", 2, perplexity=9.0, bleu=1.0
    )
    for name in ("run.json", "record.json"):  # the base of both is the same
        values = json.loads((path / name).read_text())
        values["base"] = CONFIG.to_dict()
        (path / name).write_text(json.dumps(values))
    [table] = summaries(workdir)
    assert [row.means for row in table.rows] == [row.means for row in before.values()]
    [note] = [note for note in table.notes if "first one's config" in note]
    assert note.endswith(f"left out: {path}.")


def test_a_row_has_the_changes_that_its_runs_were_made_with(workdir):
    for path in workdir.rglob("one_head/*/run.json"):
        record.write_json(path, record.read_json(path) | {"changes": {"model.num_heads": 2}})
    assert _rows(workdir)["one_head"].changes == "num_heads=2"


def test_runs_of_an_older_version_are_reported_all_the_same(workdir):
    for path in (*workdir.rglob("run.json"), *workdir.rglob("record.json")):
        run = record.read_json(path)
        del run["base"]["model"]["num_heads"]
        record.write_json(path, run)
    assert _rows(workdir)["one_head"].num_seeds == 2


def test_seeds_from_before_a_key_came_are_of_the_same_table(workdir):
    paths = [
        path
        for name in (record.RUN_FILE, record.RECORD_FILE)
        for path in workdir.rglob(f"*/seed-0/{name}")
    ]
    for path in paths:
        run = record.read_json(path)
        del run["base"]["model"]["score_divisor"], run["config"]["model"]["score_divisor"]
        record.write_json(path, run)
    [table] = summaries(workdir)
    assert [row.num_seeds for row in table.rows] == [3, 2, 1]
    assert "--seeds=3" in table.commands[0]


def test_a_model_that_translates_is_not_told_by_its_accuracy(tmp_path):
    scores = {"dev": {"perplexity": 2.0}, "test": {"bleu": 90.0, "accuracy": 0.9}}
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1, bleu=1, scores=scores)
    assert ACCURACY.name not in _rows(tmp_path)["base"].means


def test_a_row_made_with_other_changes_than_the_papers_has_none_of_its_numbers(tmp_path):
    run_ = fakes.write_record(
        tmp_path, table3.TABLE, base.get_config(), "A.h=1", 0, perplexity=5.0, bleu=25.0
    )
    assert _rows(tmp_path)["A.h=1"].paper is not None
    for name in ("run.json", "record.json"):
        values = record.read_json(run_ / name)
        record.write_json(run_ / name, values | {"changes": {"model.num_heads": 2}})
    assert _rows(tmp_path)["A.h=1"].paper is None


def test_seeds_that_are_not_finished_are_not_counted(tmp_path):
    write_sweep(tmp_path)
    for row in ("base", "one_head"):
        prepared = record.make_run(TABLE, TABLE.rows(CONFIG).named(row), CONFIG, 7)
        record.write_run(tmp_path / prepared.directory, prepared)
    rows = _rows(tmp_path)
    assert (rows["base"].num_seeds, rows["one_head"].num_seeds) == (3, 2)
    assert rows["one_head"].verdict == "no difference seen at 2 seeds against 3 of base"


def test_a_language_the_paper_has_no_bleu_of_has_no_note_of_the_paper(tmp_path):
    config = base.get_config()
    for language, number in (("fr", 1), ("cs", 0)):
        config.data.target_language = language
        workdir = tmp_path / language
        fakes.write_record(workdir, table2.TABLE, config, "base", 0, perplexity=5.0, bleu=25.0)
        [table] = summaries(workdir)
        assert sum("The paper's numbers" in note for note in table.notes) == number


@pytest.fixture
def diverged(tmp_path):
    """A base of three seeds; a row of which one has diverged, one of which all have."""
    _write_seeds(tmp_path, "base", [(1.30, 92.0), (1.31, 92.1), (1.29, 91.9)])
    _write_seeds(tmp_path, "one_head", [(2.30, 82.0), (2.31, 82.1), (2.29, 81.9)])
    _write_seeds(tmp_path, "no_positions", [(4.0, 60.0), (4.1, 61.0)])
    failed = tmp_path / "quickstart" / "one_head" / "seed-1"
    (failed / "record.json").unlink()
    record.write_json(failed / "failure.json", {"error": "diverged at step 7: the loss is nan"})
    for seed in range(2):  # as an older version left it
        path = tmp_path / "quickstart" / "no_positions" / f"seed-{seed}" / "record.json"
        values = record.read_json(path)
        values["scores"]["dev"]["perplexity"] = math.nan
        path.write_text(json.dumps(values))
    return tmp_path


def test_a_row_of_which_a_seed_diverged_has_neither_mean_nor_test(diverged):
    rows = _rows(diverged)
    for name in ("one_head", "no_positions"):
        assert rows[name].means == {} and rows[name].effects == {}
    assert rows["one_head"].verdict == "1 of 3 seeds diverged"
    assert rows["no_positions"].verdict == "diverged"
    assert [rows[name].num_diverged for name in rows] == [0, 1, 2]
    [table] = summaries(diverged)
    assert table.unfinished[:3] == [
        "one_head seed 1 diverged at step 7: the loss is nan",
        "no_positions seed 0 diverged at step 300, or before: the perplexity of dev is no finite "
        "number",
        "no_positions seed 1 diverged at step 300, or before: the perplexity of dev is no finite "
        "number",
    ]
    [note] = (note for note in table.notes if "diverged" in note)
    assert note.endswith(
        "one_head (1 of 3 seeds diverged; seed 0: PPL 2.30  BLEU 82.0; seed 2: PPL 2.29  BLEU 81.9)"
        ", no_positions (diverged)."
    )


def test_where_the_base_diverged_nothing_is_compared_with_it(diverged):
    path = diverged / "quickstart" / "base" / "seed-2" / "record.json"
    values = record.read_json(path)
    values["scores"]["dev"]["perplexity"] = None  # what is written of a number that is none
    record.write_json(path, values)
    rows = _rows(diverged)
    assert rows["base"].verdict == "1 of 3 seeds diverged"
    assert not any(row.effects for row in rows.values())


def test_what_is_equal_is_told_of_the_rows_that_it_holds_for(tmp_path):
    for row, equal in (("base", "steps"), ("one_head", "tokens"), ("one_layer", "steps")):
        facts: dict = dict(perplexity=2, bleu=1, equal=equal)
        directory = fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, **facts)
        values = record.read_json(directory / record.RUN_FILE)
        record.write_json(directory / record.RUN_FILE, values | {"equal": equal})
    [table] = summaries(tmp_path)
    [said] = [each for each in table.method if each.startswith("Equal:")]
    assert said.startswith("Equal: tokens.") and said.endswith(" This holds for one_head only.")
