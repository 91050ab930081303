"""A run from the embedded corpus, or files, to scores and translations."""

import dataclasses
import errno
import fcntl
import functools
import json
import math
import os
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from t2t_jax.data.vocabulary.vocabulary import learn_vocabulary
from t2t_jax.decoding.long_lines import LineLimit
from t2t_jax.decoding.sampling import Sampling
from t2t_jax.decoding.translate import Translation
from t2t_jax.devices import Devices
from t2t_jax.evaluation.bleu import bleu_of
from t2t_jax.evaluation.bleu_by_length import bleu_by_length
from t2t_jax.json_files import read_json, write_json
from t2t_jax.model.families import make_model
from t2t_jax.runs import train as training
from t2t_jax.runs import translate as translating
from t2t_jax.runs import workdir
from t2t_jax.runs.generate import generate, generate_lines
from t2t_jax.runs.limits import line_limit, long_line_advice
from t2t_jax.runs.score import score, score_splits
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.train import train
from t2t_jax.runs.translate import make_translator, translate
from t2t_jax.runs.workdir import load_trained, read_config
from t2t_jax.training.metrics_file import read_metrics
from t2t_jax.training.schedule import learning_rate
from t2t_jax.training.trace import Steps
from tests.cli.command import command
from tests.explain import models
from tests.runs.configs import smallest, smallest_config


def test_training_leaves_what_the_other_verbs_need(trained):
    names = {path.name for path in trained.iterdir()}
    assert names - {"scores", "translations"} == {  # of other tests
        ".train.lock",
        "config.json",
        "vocabulary.model",
        "checkpoints",
        "metrics.jsonl",
        "tensorboard",
        "training.json",
    }
    facts = json.loads((trained / "training.json").read_text())
    assert facts["steps"] == 8
    assert facts["direction"] == "en-de"
    assert {"train", "dev", "test"} <= facts["examples"].keys() and facts["examples"]["train"] > 1
    assert 0.3 < facts["non_padding_share"] <= 1


def test_the_learning_rate_that_is_told_is_that_of_the_step(trained):
    config = read_sections(read_config(trained))
    entries = [each for each in read_metrics(trained / "metrics.jsonl") if each["split"] == "train"]
    told = {each["step"]: each["learning_rate"] for each in entries if "learning_rate" in each}
    assert len(told) > 1
    for step, rate in told.items():
        expected = learning_rate(jnp.asarray(step), config.training, config.model.d_model)
        assert rate == pytest.approx(float(expected))


def test_training_again_repeats_nothing(trained, cache, capsys):
    before = read_metrics(trained / "metrics.jsonl")
    train(smallest(cache), trained, profile_steps=Steps(2, 3))
    assert read_metrics(trained / "metrics.jsonl") == before
    told = capsys.readouterr().err
    assert "nothing to do: all 8 steps are done" in told and "continuing" not in told
    assert "no trace: --profile_steps begins at step 2, and the steps to do are none" in told


def test_a_run_that_stopped_early_is_over_until_its_config_changes(
    trained, cache, tmp_path, capsys, monkeypatch
):
    workdir = shutil.copytree(trained, tmp_path / "w")
    shutil.rmtree(workdir / "checkpoints/8")
    record = read_json(workdir / "training.json")
    write_json(workdir / "training.json", record | {"steps": 4, "stopped_early": True})
    config = read_json(workdir / "config.json")
    del config["decoding"]["weights_dtype"]  # from before there was the key
    write_json(workdir / "config.json", config)
    train(smallest(cache), workdir)
    assert "nothing to do: training stopped early: 4 steps are done" in capsys.readouterr().err
    changed = smallest(cache, **{"training.patience": 9})
    with monkeypatch.context() as killed, pytest.raises(ZeroDivisionError):
        killed.setattr(training.loop, "train", lambda *_, **__: 1 / 0)
        train(changed, workdir)
    train(changed, workdir)
    assert read_json(workdir / "training.json")["steps"] == 8


def test_another_config_is_refused_before_anything_is_prepared(trained, cache, monkeypatch):
    monkeypatch.setattr(training, "prepare", None)
    with pytest.raises(ValueError, match="data.corpus_seed was 0, now it is 9"):
        train(smallest(cache, **{"data.corpus_seed": 9}), trained)


def test_another_vocabulary_of_the_same_config_is_refused(trained, cache, tmp_path):
    other = learn_vocabulary(["the cow sees die Kuh ."], "char", 30, 1.0)
    run = shutil.copytree(trained, tmp_path / "w")
    (run / "vocabulary.model").write_bytes(other.model)
    with pytest.raises(ValueError, match="was trained with the vocabulary .*, but the corpus now"):
        train(smallest(cache), run)


def test_a_run_is_taken_up_with_the_vocabulary_that_is_there(trained, cache):
    # Written again, it would be damaged by a kill at the wrong moment.
    before = (trained / "vocabulary.model").stat()
    train(smallest(cache), trained)
    assert (trained / "vocabulary.model").stat().st_mtime_ns == before.st_mtime_ns


def test_sentences_without_a_translation_are_told(trained, monkeypatch, capsys):
    def diverged(sentences, progress):
        return [[Translation("ein Hund", -1.0)], [Translation("", -math.inf)]]

    monkeypatch.setattr(translating, "make_translator", lambda _: diverged)
    assert len(translate(load_trained(trained), ["a dog", "a cat"])) == 2
    assert "1 of 2 sentences have no translation: the model's prob" in capsys.readouterr().err


def test_what_is_refused_changes_nothing(cache, tmp_path):
    def train_to(steps):
        changes = {"training.schedule": "peak", "training.steps": steps}
        train(smallest(cache, **changes), tmp_path)

    train_to(2)
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(ValueError, match=r" has 2 steps already, training\.steps=1 is less"):
        train_to(1)
    assert (tmp_path / "config.json").read_text() == before


def test_one_directory_is_trained_in_by_one_process(trained, cache, monkeypatch):
    only_training = workdir.only_training
    monkeypatch.setattr(workdir, "only_training", functools.partial(only_training, patience=0.0))
    sentence = rf"process {os.getpid()} on .* trains in .*/w; it has to end first"
    with only_training(trained):
        with pytest.raises(BlockingIOError, match=sentence):
            train(smallest(cache), trained)
    train(smallest(cache), trained)


def test_a_directory_without_locks_is_told(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match=r"train\.lock cannot be locked \(Function not implemented\)"):
        with workdir.only_training(tmp_path):
            pass


def test_another_config_in_the_same_directory_is_refused(trained, cache):
    with pytest.raises(ValueError, match=r"model\.d_ff was 16, now it is 32"):
        train(smallest(cache, **{"model.d_ff": 32}), trained)


def test_scores_are_written_with_what_makes_them_comparable(trained):
    scores = score(trained, "test")
    assert json.loads((trained / "scores" / "test.json").read_text()) == scores
    assert 1 < scores["perplexity"] < 1000
    assert 0 <= scores["bleu"] <= 100
    assert "tok:13a" in scores["bleu_signature"]
    assert scores["direction"] == "en-de"
    assert scores["sentences"] == 100
    assert scores["probes"].keys() == {"order", "pronoun"}
    assert all(0 <= share <= 1 for share in scores["probes"].values())
    translations = (trained / "translations" / "test.txt").read_text().split("\n")
    assert len(translations) == 101
    # Made of the translations as they lie there.
    sentences = json.loads((trained / "scores" / "test.sentences.json").read_text())
    assert sentences["bleu_signature"] == scores["bleu_signature"]
    statistics = np.array(sentences["statistics"])
    assert bleu_of(statistics.sum(0)) == scores["bleu"]
    by_length = bleu_by_length(statistics, sentences["source_words"])
    assert scores["bleu_by_length"] == [score._asdict() for score in by_length]
    assert len(by_length) > 1


def test_long_is_a_split_of_the_embedded_corpus_alone(cache, tmp_path):
    changes = {"data.source": "text", "data.directory": str(tmp_path)}
    smallest(cache, **changes)
    with pytest.raises(ValueError, match="bleu_on_long=True does not go with data.source='text'"):
        smallest(cache, **changes, **{"evaluation.bleu_on_long": True})
    smallest(cache, **{"evaluation.bleu_on_long": True})


def test_translations_in_lower_case_are_not_scored_by_cased_bleu(cache):
    lower = {"data.lowercase": True}
    with pytest.raises(ValueError, match="evaluation.bleu_lowercase must be True too"):
        smallest(cache, **lower)
    smallest(cache, **lower, **{"evaluation.bleu_lowercase": True})


def test_an_unknown_split_is_told(trained):
    with pytest.raises(ValueError, match="none of train, dev, test, long; .* as --source and"):
        score(trained, "valid")


def test_translations_come_in_order_and_empty_lines_stay_empty(trained):
    model = load_trained(trained)
    sentences = ["The dog sleeps.", "", "A very old man sees the cat."]
    one, empty, other = translate(model, sentences)
    assert empty[0].text == ""
    for found, sentence in ((one, sentences[0]), (other, sentences[2])):
        [[alone]] = translate(model, [sentence])
        assert found[0].text == alone.text
        assert found[0].score == pytest.approx(alone.score, rel=1e-4)
    assert one[0].score != pytest.approx(other[0].score, rel=1e-3)


@pytest.mark.slow
def test_scoring_after_training_and_translating_again_compile_nothing_again(
    cache, tmp_path, caplog
):
    # A divisor of its own: no other test has compiled this model.
    train(smallest(cache, **{"model.score_divisor": "sqrt_d_model"}), tmp_path)
    translate(load_trained(tmp_path), ["The dog sleeps."])
    with jax.log_compiles():
        score_splits(tmp_path, {"dev": False})
        translate(load_trained(tmp_path), ["The dog sees the cat."])
    assert not re.findall(r"Compiling jit\((?:by_shard_map|make_state|train_step)\)", caplog.text)
    with jax.log_compiles():
        translate(load_trained(tmp_path), ["The dog sees the cat."] * 20)
    assert "Compiling jit(by_shard_map)" in caplog.text


def test_a_vocabulary_that_does_not_fit_is_told_before_training(cache, tmp_path):
    few = {"model.vocabulary_rows": 199, "data.cache": str(tmp_path / "cache")}
    with pytest.raises(ValueError, match=r"vocabulary_rows=199 is less than data.vocabulary_size="):
        smallest(cache, **few)
    # How many pieces words or characters give is known when they are learned.
    few["model.vocabulary_rows"] = 20
    sections = smallest(cache, **few, **{"data.vocabulary_kind": "char"})
    with pytest.raises(ValueError, match=r"vocabulary_rows=20 is less than the \d+ pieces"):
        train(sections, tmp_path / "w")


def test_averaging_more_checkpoints_than_are_kept_is_told(cache):
    changes = {"decoding.average_checkpoints": 5, "training.checkpoint_every_steps": 1}
    with pytest.raises(ValueError, match=r"decoding\.average_checkpoints=5 is more than"):
        smallest(cache, **changes)


def test_averaging_more_checkpoints_than_a_run_leaves_is_told(cache):
    with pytest.raises(ValueError, match=r"average_checkpoints=3, but .* leaves only 2"):
        smallest(cache, **{"decoding.average_checkpoints": 3})


def test_a_config_of_an_earlier_version_is_told_by_what_it_lacks(cache):
    config = smallest_config(cache)
    with config.unlocked():
        del config.data.batching, config.data.mixture
    with pytest.raises(
        ValueError, match=r"config\.data lacks batching, mixture, .* earlier version"
    ):
        read_sections(config)


def test_a_stored_config_reads_back_as_it_was(trained, cache):
    assert read_config(trained).to_dict() == smallest_config(cache).to_dict()


def test_the_cache_of_a_run_that_may_be_somebody_elses_is_not_written(trained, cache, tmp_path):
    theirs = tmp_path / "theirs"
    shutil.copytree(trained, tmp_path / "w")
    config_file = tmp_path / "w" / "config.json"
    values = json.loads(config_file.read_text())
    values["data"]["cache"] = str(theirs)
    config_file.write_text(json.dumps(values))
    assert read_config(tmp_path / "w").data.cache == str(cache)
    assert score(tmp_path / "w", "dev", translates=False)["tokens"]
    done = command("score", f"--workdir={tmp_path / 'w'}", "--split=dev")
    told = f"prepared data is looked for and kept in {cache}; the run had it in {theirs}, which "
    assert done.returncode == 0 and f"{told}--config.data.cache={theirs} uses" in done.stderr
    assert not theirs.exists()
    done = command(
        "score", f"--workdir={tmp_path / 'w'}", "--split=dev", f"--config.data.cache={theirs}"
    )
    assert done.returncode == 0 and "the run had it" not in done.stderr
    assert theirs.exists()


@functools.cache
def translated_on_one_device(trained, beam_size, sentences):
    config = read_config(trained).unlock()
    config.decoding.beam_size = beam_size
    return translate(load_trained(trained, read_sections(config)), list(sentences))


@pytest.mark.parametrize(
    "layout",
    [
        {"devices.data": 8},
        {"devices.data": 2, "devices.fsdp": 2, "devices.tensor": 2},
        {"devices.data": 8, "devices.compile": "pmap"},
    ],
    ids=["8 x data", "2 x 2 x 2", "pmap over 8"],
)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_translations_and_their_order_are_the_same_on_any_devices(trained, layout, beam_size):
    sentences = [f"The {noun} sleeps." for noun in ("dog", "cat", "very old man", "bird", "car")]
    config = read_config(trained).unlock()
    config.decoding.beam_size = beam_size
    expected = translated_on_one_device(trained, beam_size, tuple(sentences))
    config.update_from_flattened_dict(layout)
    actual = translate(load_trained(trained, read_sections(config)), sentences)
    assert [best[0].text for best in actual] == [best[0].text for best in expected]
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours[0].score == pytest.approx(theirs[0].score, rel=1e-5)


@pytest.mark.slow
def test_an_ensemble_is_a_run_like_any_other(cache, tmp_path):
    sections = smallest(cache, **{"model.ensemble_size": 2})
    train(sections, tmp_path)
    scores = score(tmp_path, "dev")
    entries = read_metrics(tmp_path / "metrics.jsonl")
    dev = [entry["perplexity"] for entry in entries if entry["split"] == "dev"]
    assert scores["perplexity"] == pytest.approx(dev[-1], rel=1e-5)
    assert scores["bleu"] >= 0
    lines = ["The dog sleeps.", "A cat."]
    one, many = (
        make_translator(load_trained(tmp_path), in_stages=in_stages)(lines)
        for in_stages in (False, True)
    )
    assert [best[0].text for best in one] == [best[0].text for best in many]
    with pytest.raises(ValueError, match="was trained with model.ensemble_size=2: with 1 its"):
        score(tmp_path, "dev", smallest(cache))


@pytest.mark.slow
def test_an_ensemble_goes_on_where_its_members_are_trained_at_once(cache, tmp_path, monkeypatch):
    """As on a GPU; a checkpoint does not tell."""
    changes = {"model.ensemble_size": 2, "model.dropout_rate": 0.1, "training.schedule": "peak"}
    one_after_another, at_once = tmp_path / "one after another", tmp_path / "at once"
    train(smallest(cache, **changes, **{"training.steps": 4}), one_after_another)
    shutil.copytree(one_after_another, at_once)
    found = []
    for directory in (one_after_another, at_once):
        monkeypatch.setattr(Devices, "are_gpus", directory == at_once)
        train(smallest(cache, **changes, **{"training.steps": 8}), directory)
        found.append(load_trained(directory).params)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=5e-4), *found)
    entries = [read_metrics(path / "metrics.jsonl") for path in (one_after_another, at_once)]
    dev = [[each["loss"] for each in some if each["split"] == "dev"] for some in entries]
    assert len(dev[0]) == 2 and dev[0] == pytest.approx(dev[1], rel=1e-4)


def test_bleu_is_counted_as_the_config_says(trained):
    config = read_config(trained)
    config.evaluation.bleu_tokenizer = "char"
    config.evaluation.bleu_lowercase = True
    scores = score(trained, "dev", read_sections(config))
    assert "case:lc" in scores["bleu_signature"] and "tok:char" in scores["bleu_signature"]
    sentences = json.loads((trained / "scores" / "dev.sentences.json").read_text())
    assert bleu_of(np.array(sentences["statistics"]).sum(0)) == scores["bleu"] > 0


@pytest.mark.parametrize(
    ("key", "value", "before"),
    [
        ("activation", "gelu", "'relu'"),
        ("scale_logits", True, "False"),
        ("num_encoder_layers", 0, "1"),
    ],
)
def test_parameters_are_not_used_in_another_model(trained, key, value, before):
    config = read_config(trained)
    config.model[key] = value
    told = rf"was trained with model\.{key}={before}: with {value!r} "
    with pytest.raises(ValueError, match=told):
        score(trained, "dev", read_sections(config))


@pytest.mark.parametrize(
    ("key", "value"), [("dtype", "bfloat16"), ("norm_epsilon", 1e-5), ("scan_layers", True)]
)
def test_a_model_may_be_computed_otherwise_than_in_training(trained, key, value):
    config = read_config(trained)
    config.model[key] = value
    load_trained(trained, read_sections(config))


def test_the_model_is_the_mean_of_the_last_checkpoints(trained):
    config = read_config(trained)
    config.decoding.average_checkpoints = 2
    steps = [
        ocp.StandardCheckpointer().restore((trained / "checkpoints" / step / "params").resolve())
        for step in ("4", "8")
    ]
    mean = jax.tree.map(lambda a, b: (a + b) / 2, *steps)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        load_trained(trained, read_sections(config)).params,
        mean,
    )


@pytest.mark.slow
def test_a_checkpoint_out_of_turn_takes_the_place_of_no_other(cache, tmp_path):
    for steps in (5, 8):
        changes = {"training.schedule": "peak", "training.steps": steps}
        train(smallest(cache, **changes), tmp_path)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"4", "8"}


@pytest.mark.parametrize(
    ("key", "value"), [("data.target_tokens_per_batch", 999), ("training.steps", 12)]
)
def test_what_would_have_been_learned_otherwise_is_refused(trained, cache, key, value):
    with pytest.raises(ValueError, match=f"{key} was .* now it is {value}"):
        train(smallest(cache, **{key: value}), trained)


def test_a_run_whose_config_is_lost_is_continued_with_its_own_alone(trained, cache, tmp_path):
    workdir = shutil.copytree(trained, tmp_path / "w")
    before = (workdir / "config.json").read_text()
    (workdir / "config.json").unlink()
    with pytest.raises(ValueError, match=r"8 is of another run: .*peak_learning_rate was 0.003"):
        train(smallest(cache, **{"training.peak_learning_rate": 0.5}), workdir)
    assert not (workdir / "config.json").exists()
    train(smallest(cache), workdir)
    assert (workdir / "config.json").read_text() == before


@pytest.mark.parametrize("changes", [{"seed": 3}, {"training.warmup_steps": 1}])
def test_the_checkpoint_of_another_run_is_not_taken_for_one_of_this(cache, tmp_path, changes):
    steps = {"training.steps": 4, "training.schedule": "peak"}
    for own, name in (({}, "w1"), (changes, "w2")):
        train(smallest(cache, **steps, **own), tmp_path / name)
    workdir = tmp_path / "w1"
    shutil.rmtree(workdir / "checkpoints" / "4")
    shutil.copytree(tmp_path / "w2" / "checkpoints" / "4", workdir / "checkpoints" / "4")
    (key,) = changes
    with pytest.raises(ValueError, match=rf"4 is of another run: .*{key} was {changes[key]}, now"):
        train(smallest(cache, **steps), workdir)
    with pytest.raises(ValueError, match=rf"4 is of another run: .*{key} was {changes[key]}, now"):
        load_trained(workdir)


def test_a_run_whose_checkpoints_are_gone_is_not_begun_anew(trained, cache, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(trained, workdir)
    shutil.rmtree(workdir / "checkpoints")
    before = (workdir / "metrics.jsonl").read_bytes()
    sentence = "w has trained 8 steps, but its checkpoints are gone: bring them back"
    with pytest.raises(ValueError, match=sentence):
        train(smallest(cache), workdir)
    shutil.rmtree(workdir / "checkpoints", ignore_errors=True)
    with pytest.raises(ValueError, match=sentence):
        load_trained(workdir)
    assert (workdir / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("left", [None, '{"steps": 8, "target_tok'])
def test_the_record_of_a_training_is_made_anew_from_its_checkpoint(trained, cache, tmp_path, left):
    workdir = shutil.copytree(trained, tmp_path / "w")
    before = json.loads((workdir / "training.json").read_text())
    (workdir / "metrics.jsonl").unlink()
    if left is None:
        (workdir / "training.json").unlink()
    else:
        (workdir / "training.json").write_text(left)
    train(smallest(cache), workdir)
    after = json.loads((workdir / "training.json").read_text())
    assert after["target_tokens"] == before["target_tokens"] > 0
    assert after | {"seconds": 0} == before | {"seconds": 0}
    assert after["seconds"] == pytest.approx(before["seconds"], abs=2)


def test_a_model_is_loaded_as_it_was_at_a_step(trained):
    expected = ocp.StandardCheckpointer().restore((trained / "checkpoints/4/params").resolve())
    early = load_trained(trained, checkpoint=4)
    assert early.step == 4
    jax.tree.map(np.testing.assert_array_equal, early.params, expected)
    with pytest.raises(ValueError, match=r"--checkpoint=5 is not in .*, there are: 4, 8$"):
        load_trained(trained, checkpoint=5)


def test_the_record_of_fewer_steps_is_not_that_of_a_longer_run(trained, cache, tmp_path):
    """A run that is lengthened, and killed between its last checkpoint and its record."""
    changes = {"training.schedule": "peak"}
    workdir = tmp_path / "w"
    train(smallest(cache, **changes, **{"training.steps": 4}), workdir)
    before = (workdir / "training.json").read_bytes()
    train(smallest(cache, **changes), workdir)
    (workdir / "training.json").write_bytes(before)
    train(smallest(cache, **changes), workdir)
    assert json.loads((workdir / "training.json").read_text())["steps"] == 8


def test_where_there_is_a_checkpoint_no_first_state_is_made_beside_it(
    trained, cache, tmp_path, monkeypatch
):
    workdir = shutil.copytree(trained, tmp_path / "w")
    (workdir / "training.json").unlink()
    monkeypatch.setattr(training, "compile_init", lambda *_: pytest.fail("a second state"))
    train(smallest(cache), workdir)
    assert (workdir / "training.json").exists()


def test_the_advice_for_a_long_line_is_one_that_helps(trained):
    """Learned positions end where they end, whatever data.max_length says."""
    model = load_trained(trained)
    assert line_limit(model) == LineLimit(64, "data.max_length")
    assert long_line_advice(line_limit(model)).endswith("more with --config.data.max_length")
    config = dataclasses.replace(model.sections.model, positions="learned", max_positions=64)
    limit = line_limit(model._replace(model=make_model(config)))
    assert limit == LineLimit(64, "model.max_positions")
    assert long_line_advice(limit) == "shorten or cut it"


def test_a_prompt_longer_than_what_was_learned_from_is_refused_like_a_line():
    model = models.trained("decoder_only", **{"data.max_length": 8})
    told = "prompt 2 has 9 tokens, more than data.max_length=8, the longest that the model"
    with pytest.raises(ValueError, match=told):
        generate(model, ["a", "the dog"], max_new_tokens=1, sampling=Sampling())


@pytest.mark.parametrize(("max_new_tokens", "room"), [(60, 5), (99, 0)])
def test_a_line_that_leaves_no_room_for_what_is_to_be_written_is_told(max_new_tokens, room):
    model = models.trained("decoder_only", "learned", **{"model.max_positions": 64})
    lines = generate_lines(model, [["the dog"]], max_new_tokens=max_new_tokens, sampling=Sampling())
    told = (
        f"line 1 has 9 tokens, more than the {room} that model.max_positions=64 leaves beside "
        f"--max_new_tokens={max_new_tokens}: shorten or cut it, or lower --max_new_tokens"
    )
    with pytest.raises(ValueError, match=told):
        next(lines)
