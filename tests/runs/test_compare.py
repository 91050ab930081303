"""Two runs with given translations."""

import numpy as np
import pytest

from configs import tiny
from t2t_jax.evaluation.bleu import bleu_of, sentence_statistics
from t2t_jax.evaluation.metrics import METRICS, counted
from t2t_jax.evaluation.significance import paired_bootstrap
from t2t_jax.json_files import read_json, write_json
from t2t_jax.runs import compare as comparing
from t2t_jax.runs.compare import compare
from tests.runs.written_scores import PAIRS, RIGHT, WRONG, write_run


@pytest.fixture
def runs(tmp_path):
    return write_run(tmp_path / "w1", WRONG), write_run(tmp_path / "w2", RIGHT)


def test_every_metric_has_both_scores_and_a_paired_bootstrap(runs):
    found = compare(*runs, "mine")
    assert found.num_sentences == 16 and found.files[0].endswith("mine.en")
    assert tuple(metric.name for metric in found.metrics) == METRICS
    references = [target for _, target in PAIRS]
    sides = counted(WRONG, references, "de"), counted(RIGHT, references, "de")
    for metric in found.metrics:
        expected = tuple(side[metric.name].score for side in sides)
        assert metric.scores == expected
        assert metric.comparison.difference == expected[1] - expected[0]
        assert (metric.comparison.difference > 0) == (metric.name != "ter")
    [of_bleu] = [metric for metric in found.metrics if metric.name == "bleu_13a"]
    statistics = [sentence_statistics(side, references) for side in (RIGHT, WRONG)]
    assert of_bleu.comparison == paired_bootstrap(*statistics, bleu_of)


def test_a_run_against_itself_differs_in_nothing(runs):
    found = compare(runs[0], runs[0], "mine")
    assert {metric.comparison for metric in found.metrics} == {(0, 0, 0, 1)}
    assert not any(each.most_different for each in found.by_length)


def test_the_sentences_that_differ_most_come_by_length(runs):
    short, long = compare(*runs, "mine", 1).by_length
    assert (short.scores[0].sentences, long.scores[0].sentences) == (8, 8)
    assert short.scores[0].bleu < 100 == pytest.approx(short.scores[1].bleu)
    [sentence] = short.most_different
    assert (sentence.number, sentence.words) == (3, 4)
    assert (sentence.source, sentence.reference) == PAIRS[2]
    assert sentence.translations == (WRONG[2], RIGHT[2])
    assert sentence.bleu[0] < sentence.bleu[1] == pytest.approx(100)
    assert [sentence.number for sentence in long.most_different] == [12]
    # Also where it is the second that is worse.
    other_way = compare(*runs[::-1], "mine", 1).by_length
    assert [each.most_different[0].number for each in other_way] == [3, 12]


def test_runs_scored_before_there_were_more_metrics_have_bleu(runs, tmp_path):
    old = write_run(tmp_path / "old", WRONG, with_metrics=False)
    found = compare(old, runs[1], "mine")
    assert [metric.name for metric in found.metrics] == ["bleu"]


def test_without_the_text_the_translations_are_shown_alone(runs, tmp_path):
    (tmp_path / "mine.en").unlink()
    [sentence] = compare(*runs, "mine", 1).by_length[0].most_different
    assert sentence.source == sentence.reference == "" != sentence.translations[0]


def test_a_split_of_other_sentences_than_were_scored_is_not_shown(runs, monkeypatch):
    kept = [read_json(run / "scores" / "mine.json") for run in runs]
    for run, values in zip(runs, kept, strict=True):  # as if it were a split
        del values["sha256"]
        write_json(run / "scores" / "mine.json", values)
    monkeypatch.setattr(comparing, "read_config", lambda _: tiny.get_config())
    for pairs, shown in ((PAIRS, PAIRS[2]), ([*PAIRS[1:], PAIRS[0]], ("", ""))):
        monkeypatch.setattr(comparing, "read_pairs", lambda *_, pairs=pairs: iter(pairs))
        [sentence] = compare(*runs, "mine", 1).by_length[0].most_different
        assert (sentence.source, sentence.reference) == shown


def test_another_search_is_told_key_by_key(runs):
    beam = {"beam_size": 4, "length_penalty": 0.6, "n_best": 1, "tokens_per_batch": 8192}
    search_by(runs[0], beam)
    search_by(runs[1], beam | {"n_best": 4, "tokens_per_batch": 100})
    assert compare(*runs, "mine").search == []
    search_by(runs[1], beam | {"length_penalty": 1.0})
    assert compare(*runs, "mine").search == [("decoding.length_penalty", 0.6, 1.0)]
    # A beam of 1 reads no length penalty.
    search_by(runs[1], beam | {"beam_size": 1, "length_penalty": 1.0})
    assert compare(*runs, "mine").search == [("decoding.beam_size", 4, 1)]


def test_a_search_of_before_had_the_value_that_all_had(runs):
    search_by(runs[0], {"beam_size": 4})
    search_by(runs[1], {"beam_size": 4, "weights_dtype": "float32"})
    assert compare(*runs, "mine").search == []
    search_by(runs[1], {"beam_size": 4, "weights_dtype": "bfloat16"})
    found = compare(*runs, "mine").search
    assert found == [("decoding.weights_dtype", "float32", "bfloat16")]


def test_scores_of_before_say_nothing_of_their_search(runs):
    search_by(runs[0], {"beam_size": 4})
    assert compare(*runs, "mine").search == []


def search_by(workdir, decoding):
    path = workdir / "scores" / "mine.json"
    write_json(path, read_json(path) | {"decoding": decoding})


def test_other_sentences_are_refused(runs):
    path = runs[1] / "scores" / "mine.json"
    write_json(path, read_json(path) | {"sha256": ["0", "1"]})
    with pytest.raises(ValueError, match="w1 and .*w2 do not have the same files"):
        compare(*runs, "mine")


def test_other_references_are_refused(runs):
    path = runs[1] / "scores" / "mine.sentences.json"
    values = read_json(path)
    values["statistics"] = (np.array(values["statistics"]) + 1).tolist()
    write_json(path, values)
    with pytest.raises(ValueError, match="do not have the same references"):
        compare(*runs, "mine")


def test_a_run_without_these_scores_is_told(runs):
    with pytest.raises(ValueError, match="w1 has no scores of 'test': t2t-jax score --workdir="):
        compare(*runs, "test")


def test_models_that_translate_nothing_are_told(runs):
    path = runs[1] / "scores" / "mine.json"
    write_json(path, read_json(path) | {"task": "classification"})
    with pytest.raises(ValueError, match="w2 has learned data.task='classification': compare is"):
        compare(*runs, "mine")


@pytest.mark.parametrize(
    "name", ["scores/mine.sentences.json", "translations/mine.txt", "scores/mine.statistics.json"]
)
def test_a_damaged_file_is_told(name, runs):
    (runs[0] / name).write_text('{"ter": {}}')
    with pytest.raises(ValueError, match=r"belong to .*mine.json are missing or damaged"):
        compare(*runs, "mine")
