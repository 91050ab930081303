"""A user's own test sets, besides the splits of the corpus."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from configs import language_model
from t2t_jax.data.corpora.corpus import read_pairs
from t2t_jax.devices import make_devices
from t2t_jax.evaluation.bleu_by_length import num_words
from t2t_jax.evaluation.metrics import METRICS, counted, score_of
from t2t_jax.runs import score as scoring
from t2t_jax.runs.batches import check_lengths, train_batches
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.pretrained import load_vocabulary
from t2t_jax.runs.score import score, score_checkpoints, score_files
from t2t_jax.runs.scored_text import check_split, given_text, read_given, split_of
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.train import train
from t2t_jax.runs.workdir import load_trained, read_config
from tests.data.text_corpus import sentence_pairs, write_pairs
from tests.runs.configs import smallest
from tests.runs.written_scores import write_files

PAIRS = [("The dog sleeps.", "Der Hund schläft."), ("A cat sees the dog.", "Eine Katze sieht ihn.")]


@pytest.fixture
def run(trained, tmp_path):
    """A run without its corpus, whose scores are this test's own."""
    leave = shutil.ignore_patterns("scores", "translations")
    return shutil.copytree(trained, tmp_path / "w", ignore=leave)


def test_files_have_the_scores_of_a_split_with_the_same_lines(run, cache, tmp_path):
    pairs = list(read_pairs(smallest(cache).data, "dev"))
    files = write_files(tmp_path, "dev2", pairs)
    of_split, of_files = score(run, "dev"), score_files(run, read_given(*files))
    for key in ("bleu", "bleu_signature", "bleu_by_length", "metrics", "sentences", "tokens"):
        assert of_files[key] == of_split[key]
    for key in ("perplexity", "accuracy"):
        assert of_files[key] == pytest.approx(of_split[key], rel=1e-6)
    assert of_files["name"] == "dev2" and "split" not in of_files
    assert of_files["files"] == list(map(str, files)) and of_split["files"] == []
    texts = [(run / "translations" / f"{name}.txt").read_text() for name in ("dev", "dev2")]
    assert texts[0] == texts[1] != ""
    sources, references = map(list, zip(*pairs, strict=True))
    metrics = counted(texts[1].removesuffix("\n").split("\n"), references, "de")
    assert of_files["metrics"] == {
        name: {"score": found.score, "signature": found.signature}
        for name, found in metrics.items()
    }
    counts = json.loads((run / "scores" / "dev2.sentences.json").read_text())
    assert counts["source_words"] == num_words(sources)
    # What is counted of each sentence makes the score.
    statistics = json.loads((run / "scores" / "dev2.statistics.json").read_text())
    assert tuple(statistics) == tuple(of_files["metrics"]) == METRICS
    for name, entry in statistics.items():
        found = score_of(name)(np.array(entry["statistics"]).sum(0))
        assert found == of_files["metrics"][name]["score"]
        assert entry["signature"] == of_files["metrics"][name]["signature"]


def test_of_train_those_sentences_are_translated_that_were_learned_from(cache):
    sections = smallest(cache, **{"data.max_length": 12})
    prepared = prepare(sections)
    kept = prepared.splits["train"].num_pairs
    pairs = split_of(sections, prepared, "train").pairs()
    assert len(pairs) == kept < len(list(read_pairs(sections.data, "train")))
    ids = prepared.vocabulary.encode([source for source, _ in pairs])
    lengths = np.diff(prepared.splits["train"].source_offsets)
    np.testing.assert_array_equal([len(each) + 1 for each in ids], lengths)


def test_a_sentence_that_fits_in_no_batch_is_told_with_its_split(cache):
    sections = smallest(cache, **{"data.source_tokens_per_batch": 4})
    with pytest.raises(ValueError, match="^dev, of which no sentence is left out: data.source_to"):
        check_lengths(prepare(sections), sections, make_devices(1))


def test_several_test_sets_keep_their_scores_side_by_side_without_a_corpus(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(scoring, "prepare", None)  # nothing of the corpus is read
    found = [
        score_files(run, read_given(*write_files(tmp_path, name, PAIRS[:num_pairs])))
        for name, num_pairs in (("t16", 1), ("t17", 2))
    ]
    assert [scores["sentences"] for scores in found] == [1, 2]
    for scores in found:
        kept = json.loads((run / "scores" / f"{scores['name']}.json").read_text())
        assert kept == scores
        lines = (run / "translations" / f"{scores['name']}.txt").read_text().splitlines()
        assert len(lines) == scores["sentences"]


def test_scores_of_other_files_are_not_overwritten(run, tmp_path):
    files = write_files(tmp_path, "t16", PAIRS[:1])
    before = score_files(run, read_given(*files))
    assert score_files(run, read_given(*files))["bleu"] == before["bleu"]
    others = write_files(tmp_path, "t17", PAIRS)
    with pytest.raises(ValueError, match=r"t16.json has the scores of .*t16.en and .*--name"):
        score_files(run, read_given(*others, "t16"))
    assert json.loads((run / "scores" / "t16.json").read_text())["sentences"] == 1


def test_another_test_file_does_not_take_the_place_of_the_runs_own(trained, cache):
    before = read_config(trained).to_dict()
    text = {"data.source": "text", "data.directory": "DIR", "data.test": "t16"}
    sections = smallest(cache, **text)
    with pytest.raises(ValueError, match=r"data.test='t16', but the run .* --source=FILE"):
        check_split(trained, before, sections, "test")
    with pytest.raises(ValueError, match=r"data.test='t16', but the run .* --source=FILE"):
        score(trained, "test", sections)
    check_split(trained, before, sections, "dev")


@pytest.mark.parametrize(
    ("source", "reference", "sentence"),
    [
        (b"a\nb\n", b"c\n", "t.en has 2 lines, .*t.de has 1: line 2 of t.en has no partner"),
        (b"a\n \nc\n", b"a\nb\nc\n", "t.en, line 2: blank, where each line must be a sentence"),
        (b"a\nb\n", b"a\n\n", "t.de, line 2: blank"),
        (b"a\nb\n", b"a\n\xff\n", r"t.de, line 2: not UTF-8"),
        (b"", b"a\n", "t.en is empty"),
        (b"a\n\x00\n", b"a\nb\n", "t.en, line 2: control characters"),
    ],
)
def test_a_mistake_in_the_files_is_told_with_file_and_line(source, reference, sentence, tmp_path):
    (tmp_path / "t.en").write_bytes(source)
    (tmp_path / "t.de").write_bytes(reference)
    with pytest.raises(ValueError, match=sentence):
        read_given(tmp_path / "t.en", tmp_path / "t.de")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ValueError, match="none.en cannot be read: No such file"):
        read_given(tmp_path / "none.en", tmp_path / "none.de")
    with pytest.raises(ValueError, match="is a directory: it must be a text file, which"):
        read_given(tmp_path, tmp_path)


@pytest.mark.parametrize("name", ["../t", "a/b", "", ".t", "a b", "t.json", "t.sentences", "ä"])
def test_a_name_must_be_one_that_a_file_can_have(name, tmp_path):
    files = write_files(tmp_path, "t", PAIRS)
    with pytest.raises(ValueError, match="cannot name a test set: use letters"):
        read_given(*files, name)


def test_the_name_of_a_split_is_the_splits(tmp_path):
    files = write_files(tmp_path, "test", PAIRS)
    with pytest.raises(ValueError, match="--name='test' is that of a split"):
        read_given(*files)
    assert read_given(*files, "newstest2017.v1").name == "newstest2017.v1"


@pytest.mark.parametrize("what", ["direction", "text"])
def test_scores_of_another_text_of_the_same_name_are_not_overwritten(run, cache, what):
    score(run, "test")
    file = run / "scores" / "test.json"
    kept = file.read_bytes()
    score(run, "test", smallest(cache, **{"data.max_length": 12}))  # of train only
    assert json.loads(file.read_bytes())["bleu"] == json.loads(kept)["bleu"]
    if what == "direction":
        changes = {"data.source_language": "de", "data.target_language": "en"}
        sections = smallest(cache, **changes)
    else:
        sections = smallest(cache)
        scores = json.loads(kept) | {"split_fingerprint": "of another text"}
        file.write_text(json.dumps(scores))
    kept = file.read_bytes()
    for refused in (score, score_checkpoints):
        with pytest.raises(ValueError, match=r"test.json has the scores of another test, en-de"):
            refused(run, "test", sections)
    assert file.read_bytes() == kept


def test_files_are_of_a_translation(trained, cache, tmp_path):
    given = read_given(*write_files(tmp_path, "t", PAIRS))
    vocabulary = load_vocabulary(trained / "vocabulary.model")
    with pytest.raises(ValueError, match="has learned data.task='language_modelling'"):
        given_text(smallest(cache, language_model), vocabulary, given)


def test_a_curve_has_every_checkpoint_and_changes_no_other_score(run, tmp_path):
    given = read_given(*write_files(tmp_path, "t", PAIRS))
    shown = []
    curve = score_checkpoints(run, given, show=shown.append)
    assert [scores["step"] for scores in curve] == [4, 8] and shown == curve
    lines = (run / "scores" / "t.checkpoints.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == curve
    assert [path.name for path in (run / "scores").iterdir()] == ["t.checkpoints.jsonl"]
    expected = score_files(run, given, checkpoint=4)
    assert curve[0] | {"seconds": 0} == expected | {"seconds": 0}
    assert curve[0]["perplexity"] != curve[1]["perplexity"]


def test_a_damaged_last_checkpoint_is_left_out_of_the_curve(run, tmp_path, capsys):
    given = read_given(*write_files(tmp_path, "t", PAIRS))
    zeroed(run / "checkpoints/8/params/d")
    assert [scores["step"] for scores in score_checkpoints(run, given)] == [4]
    assert "8 is damaged" in capsys.readouterr().err
    zeroed(run / "checkpoints/4/params/d")
    with pytest.raises(ValueError, match="none of the checkpoints in .* can be scored"):
        score_checkpoints(run, given)


def test_a_checkpoint_that_a_run_in_progress_removes_is_left_out(run, tmp_path, capsys):
    given = read_given(*write_files(tmp_path, "t", PAIRS))

    def trains_on(_):
        shutil.rmtree(run / "checkpoints/8", ignore_errors=True)

    assert [scores["step"] for scores in score_checkpoints(run, given, show=trains_on)] == [4]
    assert "the checkpoint at step 8 is gone: left out" in capsys.readouterr().err


def test_a_mean_whose_first_checkpoint_a_run_in_progress_removes_is_left_out(
    run, cache, tmp_path, monkeypatch, capsys
):
    given = read_given(*write_files(tmp_path, "t", PAIRS))

    def trains_on(*arguments):
        shutil.rmtree(run / "checkpoints/4")
        return load_trained(*arguments)

    monkeypatch.setattr(scoring, "load_trained", trains_on)
    sections = smallest(cache, **{"decoding.average_checkpoints": 2})
    with pytest.raises(ValueError, match="none of the checkpoints in .* can be scored"):
        score_checkpoints(run, given, sections)
    assert "at step 4 is gone: no mean up to step 8" in capsys.readouterr().err


def zeroed(directory):
    """Damages every file in it."""
    for file in [each for each in directory.rglob("*") if each.is_file()]:
        file.write_bytes(bytes(file.stat().st_size))


def test_the_curve_of_other_files_is_not_overwritten(run, tmp_path):
    score_checkpoints(run, read_given(*write_files(tmp_path, "t", PAIRS[:1])))
    other = read_given(*write_files(tmp_path, "t17", PAIRS), "t")
    for refused in (score_checkpoints, score_files):
        with pytest.raises(ValueError, match=r"t.checkpoints.jsonl has the scores of .*t.en and"):
            refused(run, other)


def test_a_curve_keeps_the_checkpoints_that_are_gone_if_the_search_is_the_same(
    run, cache, tmp_path, capsys
):
    given = read_given(*write_files(tmp_path, "t", PAIRS))
    curve = score_checkpoints(run, given)

    def kept():
        lines = (run / "scores" / "t.checkpoints.jsonl").read_text().splitlines()
        return [scores["step"] for scores in map(json.loads, lines)]

    zeroed(run / "checkpoints/4/params/d")
    assert [scores["step"] for scores in score_checkpoints(run, given)] == [8]
    assert "4 is damaged" in capsys.readouterr().err and kept() == [4, 8]
    shutil.rmtree(run / "checkpoints/4")
    assert score_checkpoints(run, given)[0]["bleu"] == curve[1]["bleu"] and kept() == [4, 8]
    score_checkpoints(run, given, smallest(cache, **{"decoding.tokens_per_batch": 64}))
    assert kept() == [4, 8]  # the same translations, in other batches
    path = run / "scores" / "t.checkpoints.jsonl"
    later = [json.loads(line) for line in path.read_text().splitlines()]
    later[0]["decoding"]["a_later_key"] = 1
    path.write_text("damaged\n" + "".join(json.dumps(each) + "\n" for each in later))
    score_checkpoints(run, given)
    assert kept() == [4, 8]
    score_checkpoints(run, given, smallest(cache, **{"decoding.beam_size": 1}))
    assert kept() == [8]
    del later[0]["decoding"]["weights_dtype"]  # from before there was the key
    path.write_text("".join(json.dumps(each) + "\n" for each in later))
    score_checkpoints(run, given)
    assert kept() == [4, 8]
    score_checkpoints(run, given, smallest(cache, **{"decoding.weights_dtype": "bfloat16"}))
    assert kept() == [8]


def test_a_curve_is_of_one_bleu(run, tmp_path):
    given = read_given(*write_files(tmp_path, "t", PAIRS))
    config = read_config(run)
    score_checkpoints(run, given, read_sections(config))
    shutil.rmtree(run / "checkpoints/4")
    config.evaluation.bleu_tokenizer = "char"
    score_checkpoints(run, given, read_sections(config))
    lines = (run / "scores" / "t.checkpoints.jsonl").read_text().splitlines()
    assert ["tok:char" in json.loads(line)["bleu_signature"] for line in lines] == [True]


def test_train_of_a_mixture_is_scored_once_whatever_its_weights(cache, tmp_path):
    pairs = sentence_pairs(60)
    for name, of in (("a", pairs[:20]), ("b", pairs[20:40])):
        (tmp_path / name).mkdir()
        write_pairs(tmp_path / name, "train", of)
    write_pairs(tmp_path, "dev", pairs[40:50])
    write_pairs(tmp_path, "test", pairs[50:])
    changes = {
        "data.source": "text",
        "data.directory": str(tmp_path),
        "data.mixture": f"{tmp_path / 'a'}=1,{tmp_path / 'b'}=3",
        "data.vocabulary_size": 60,
    }
    sections = smallest(cache, **changes)
    prepared = prepare(sections)
    devices = make_devices(**dataclasses.asdict(sections.devices))
    batches = train_batches(prepared, sections, devices)
    epoch = [batches[step] for step in range(batches.batches_per_epoch)]
    assert sum(np.any(batch.target_ids, axis=1).sum() for batch in epoch) == 20 + 3 * 20
    train(sections, tmp_path / "w")
    assert score(tmp_path / "w", "train")["sentences"] == 40


def test_a_sentence_that_training_would_drop_is_not_scored(cache, tmp_path):
    """A blank reference would make a mistake of every translation."""
    pairs = sentence_pairs(60)
    write_pairs(tmp_path, "train", pairs[:40])
    write_pairs(tmp_path, "dev", pairs[40:50])
    with_blanks = [("", "Ein Hund."), *pairs[50:55], ("A dog.", " "), ("A\x01dog.", "b")]
    write_pairs(tmp_path, "test", with_blanks)
    changes = {"data.source": "text", "data.directory": str(tmp_path)}
    sections = smallest(cache, **changes, **{"data.vocabulary_size": 60})
    train(sections, tmp_path / "w")
    scores = score(tmp_path / "w", "test")
    assert scores["sentences"] == 5
    lines = (tmp_path / "w/translations/test.txt").read_text().splitlines()
    assert len(lines) == 5
