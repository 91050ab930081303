"""Language models, masked ones and classifiers, by the same verbs as translation."""

import json

import numpy as np
import pytest

from configs import classifier, language_model, masked_language_model, tiny
from t2t_jax.devices import make_devices
from t2t_jax.json_files import DiskFullError
from t2t_jax.runs import score as scoring
from t2t_jax.runs.batches import evaluation_batches, train_batches
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.score import score, score_splits
from t2t_jax.runs.train import train
from t2t_jax.runs.workdir import load_trained, read_classes
from tests.cli.command import command
from tests.runs.configs import smallest

FEWEST_STEPS = {
    "data.num_buckets": 1,
    "data.source_tokens_per_batch": 4_096,
    "data.target_tokens_per_batch": 4_096,
    "training.steps": 2,
    "training.warmup_steps": 1,
    "training.checkpoint_every_steps": 2,
}


def sections_of(module, cache, **changes):
    return smallest(cache, module, **FEWEST_STEPS, **changes)


@pytest.fixture(scope="module")
def run_of(cache, tmp_path_factory):
    """The directory of a trained model, trained once a module."""
    done = {}

    def run(module):
        if module not in done:
            done[module] = tmp_path_factory.mktemp("run") / "w"
            train(sections_of(module, cache), done[module])
        return done[module]

    return run


def test_a_language_model_is_scored_beside_unigram_and_bigram(run_of):
    scores = score(run_of(language_model), "test")
    assert (scores["task"], scores["direction"]) == ("language_modelling", "en")
    assert 1 < scores["bigram_perplexity"] < scores["unigram_perplexity"] < scores["perplexity"]
    assert 0 <= scores["accuracy"] <= 1 and "bleu" not in scores
    assert json.loads((run_of(language_model) / "scores" / "test.json").read_text()) == scores


def test_a_masked_language_model_is_scored_on_the_same_masks_each_time(run_of):
    first, again = (score(run_of(masked_language_model), "dev") for _ in range(2))
    assert first["perplexity"] == again["perplexity"] and first["tokens"] == again["tokens"]
    assert 0 < first["most_frequent_accuracy"] < 0.3
    long = score(run_of(masked_language_model), "long")
    assert long["tokens"] > first["tokens"]


def test_a_classifier_is_scored_as_a_whole_and_by_class(run_of):
    scores = score(run_of(classifier), "test")
    by_class = scores["accuracy_by_class"]
    assert by_class.keys() == {"statement", "question"} and scores["tokens"] == 200
    assert scores["accuracy"] == pytest.approx(sum(by_class.values()) / 2)
    trained = load_trained(run_of(classifier))
    assert trained.classes == ("statement", "question")
    assert (run_of(classifier) / "classes.txt").read_text() == "statement\nquestion\n"


@pytest.mark.parametrize("content", [b"statement\nquest", b"x\nx\n", b"a\n\xff\n", b""])
def test_class_names_that_are_damaged_are_refused(tmp_path, content):
    (tmp_path / "classes.txt").write_bytes(content)
    with pytest.raises(ValueError, match="classes.txt is damaged"):
        read_classes(tmp_path)


def test_scores_that_cannot_be_written_are_told(run_of, monkeypatch, capsys):
    def full(*_):
        raise DiskFullError("no space")

    monkeypatch.setattr(scoring, "_write", full)
    with pytest.raises(DiskFullError):
        score(run_of(classifier), "test")
    assert '"accuracy_by_class": {' in capsys.readouterr().err

    def refused(place):
        raise PermissionError(f"{place} cannot be written to")

    monkeypatch.setattr(scoring, "check_place", refused)
    monkeypatch.setattr(scoring, "corpus_of", None)  # before anything is computed
    with pytest.raises(PermissionError, match="scores cannot be written"):
        score(run_of(classifier), "test")


def test_several_splits_are_scored_by_one_loaded_model(run_of, monkeypatch):
    loads = []
    monkeypatch.setattr(
        scoring,
        "load_trained",
        lambda *arguments: loads.append(arguments) or load_trained(*arguments),
    )
    scores = score_splits(run_of(classifier), {"dev": False, "test": True})
    assert [scores[split]["split"] for split in ("dev", "test")] == ["dev", "test"]
    assert len(loads) == 1


def test_other_data_with_the_same_vocabulary_does_not_go_on_with_a_run(tmp_path):
    for stem in ("train", "dev", "test"):
        (tmp_path / f"{stem}.en").write_text("the dog sees a cat\na cat sleeps\n" * 8)
        (tmp_path / f"{stem}.labels").write_text("long\nshort\n" * 8)
    changes = {
        "data.source": "text",
        "data.directory": str(tmp_path),
        "data.vocabulary_size": 26,
        "devices.data": 1,
    }
    sections = sections_of(classifier, tmp_path / "cache", **changes)
    train(sections, tmp_path / "w")
    (tmp_path / "dev.labels").write_text("short\nlong\n" * 8)
    with pytest.raises(ValueError, match="has data_fingerprint .* it cannot be used with this one"):
        train(sections, tmp_path / "w")
    # What was learned can be scored on it.
    assert score(tmp_path / "w", "dev")["tokens"] == 16
    for stem in ("train", "dev", "test"):
        (tmp_path / f"{stem}.labels").write_text("long\nbrief\n" * 8)
    with pytest.raises(ValueError, match="now has the classes brief, long, but .* long, short"):
        score(tmp_path / "w", "dev")


@pytest.mark.parametrize(
    ("module", "changes", "sentence"),
    [
        (
            tiny,
            {"model.family": "decoder_only"},
            "data.task='translation' cannot be learned by model.family='decoder_only': it needs "
            "'encoder_decoder' or 'recurrent'",
        ),
        (language_model, {"model.family": "encoder_only"}, "it needs 'decoder_only'"),
        (
            masked_language_model,
            {"model.pooling": "mean"},
            "data.task='masked_language_modelling' does not go with model.pooling='mean': it needs "
            "'none'",
        ),
        (classifier, {"model.pooling": "none"}, "it needs 'cls', 'mean' or 'query'"),
        (
            classifier,
            {"training.label_smoothing": 0.1},
            "training.label_smoothing=0.1 must be 0 where data.task='classification'",
        ),
    ],
)
def test_a_family_that_cannot_learn_the_task_is_told(module, changes, sentence):
    with pytest.raises(ValueError) as error:
        sections_of(module, "cache", **changes)
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_classes_are_smoothed_if_padding_gets_nothing():
    smoothing = {"training.label_smoothing": 0.1}
    smoothing["training.label_smoothing_mass"] = "others_but_padding"
    assert sections_of(classifier, "cache", **smoothing).training.label_smoothing == 0.1


def test_another_number_of_classes_than_the_corpus_has_is_told(cache, tmp_path):
    sections = sections_of(classifier, cache, **{"model.num_classes": 3})
    sentence = r"model\.num_classes=3, but the corpus has 2 classes \(statement, question\)"
    with pytest.raises(ValueError, match=sentence):
        train(sections, tmp_path / "w")


@pytest.mark.parametrize("module", [language_model, masked_language_model, classifier])
def test_too_few_learned_positions_are_told_for_every_family(module, cache, tmp_path):
    changes = {"model.positions": "learned", "model.max_positions": 8}
    with pytest.raises(ValueError, match=r"model\.max_positions=8 is less than the \d+ tokens"):
        train(sections_of(module, cache, **changes), tmp_path / "w")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (language_model, "bigram_perplexity"),
        (language_model, "unigram_perplexity"),
        (masked_language_model, "most_frequent_accuracy"),
    ],
    ids=["bigram", "unigram", "frequent"],
)
def test_simple_models_are_scored_on_the_split_itself(run_of, module, name):
    found = {split: score(run_of(module), split)[name] for split in ("train", "test")}
    assert found["train"] != found["test"]


def test_every_seed_is_scored_on_the_same_masks(cache):
    sections = sections_of(masked_language_model, cache)
    prepared, devices = prepare(sections), make_devices(1)
    first, second = (
        evaluation_batches(prepared, "dev", sections._replace(seed=seed), devices)[0]
        for seed in (0, 1)
    )
    np.testing.assert_array_equal(first.target_ids, second.target_ids)


@pytest.mark.parametrize("rate", [0.15, 0.5])
def test_training_asks_for_the_share_of_tokens_that_the_config_says(cache, rate):
    sections = sections_of(masked_language_model, cache, **{"data.mask_rate": rate})
    batches = train_batches(prepare(sections), sections, make_devices(1))
    epoch = [batches[step] for step in range(batches.batches_per_epoch)]
    asked, there = (
        sum(np.count_nonzero(getattr(batch, side)) for batch in epoch)
        for side in ("target_ids", "source_ids")
    )
    assert asked / there == pytest.approx(rate, rel=0.2)  # start and end are never asked for


def test_the_classify_command_uses_what_was_trained(run_of):
    text = "the dog is sleeping\n\nis the dog sleeping\n"
    done = command("classify", f"--workdir={run_of(classifier)}", text=text)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and lines[1] == ""
    assert {line.split("\t")[0] for line in (lines[0], lines[2])} <= {"statement", "question"}
