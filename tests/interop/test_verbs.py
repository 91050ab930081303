"""The verbs with models of other libraries: using, fine-tuning and exporting them."""

import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")

from configs import classifier, language_model, tiny  # noqa: E402
from t2t_jax.decoding.sampling import Sampling  # noqa: E402
from t2t_jax.explain.explained import explain  # noqa: E402
from t2t_jax.explain.page import page  # noqa: E402
from t2t_jax.interop.huggingface import load_pretrained  # noqa: E402
from t2t_jax.runs import pretrained, workdir  # noqa: E402
from t2t_jax.runs.classify import classify  # noqa: E402
from t2t_jax.runs.export import export  # noqa: E402
from t2t_jax.runs.generate import generate, generate_lines  # noqa: E402
from t2t_jax.runs.score import score  # noqa: E402
from t2t_jax.runs.sections import read_sections  # noqa: E402
from t2t_jax.runs.train import train  # noqa: E402
from t2t_jax.runs.translate import translate  # noqa: E402
from tests.data.text_corpus import (  # noqa: E402
    labelled_sentences,
    sentence_pairs,
    write_labelled,
    write_pairs,
)
from tests.interop import peers  # noqa: E402

pytestmark = pytest.mark.parity
BARELY = 1e-12  # a learning rate that moves nothing


def loaded(directory, **changes):
    config = pretrained.default_config(directory)
    config.update_from_flattened_dict({"devices.data": 1} | changes)
    return pretrained.load(directory, config)


def barely_trained(config_file, directory, **changes):
    """A run on a few lines of text that changes nothing of what it begins with."""
    directory.mkdir(exist_ok=True)
    for split in ("train", "dev", "test"):
        write_pairs(directory, split, sentence_pairs(9))
        if config_file is classifier:
            write_labelled(directory, split, labelled_sentences(9))
    config = config_file.get_config()
    values = {
        "data.source": "text",
        "data.directory": str(directory),
        "data.num_buckets": 1,
        "data.max_length": 200,
        "data.source_tokens_per_batch": 2_000,
        "data.target_tokens_per_batch": 2_000,
        "data.cache": str(directory / "cache"),
        "training.steps": 1,
        "training.label_smoothing": 0.0,
        "training.schedule": "peak",
        "training.peak_learning_rate": BARELY,
        "training.checkpoint_every_steps": 1,
        "decoding.average_checkpoints": 1,
        "decoding.beam_size": 1,
        "decoding.max_tokens": 3,
        "devices.data": 1,
    }
    config.update_from_flattened_dict(values | changes)
    return read_sections(config)


def assert_same(found, expected):
    """Every parameter that was read is still what it was."""
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_same(found[name], value)
        else:
            np.testing.assert_allclose(found[name], value, atol=1e-6, err_msg=name)


def test_translate(tmp_path):
    peers.save_marian(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"num_beams": 2}))
    model = loaded(tmp_path, **{"decoding.max_tokens": 3, "decoding.n_best": 2})
    assert model.sections.decoding.beam_size == 2
    assert model.sections.decoding.length_penalty_formula == "power"
    found = translate(model, ["The dog sleeps.", "", "The dog sleeps."])
    assert found[0] == found[2] and len(found[0]) == 2
    assert found[1][0].text == ""


def test_padding_has_no_share_in_the_probability_of_a_translation(tmp_path):
    import torch
    import transformers

    theirs = peers.save_marian(tmp_path)
    padding = theirs.config.pad_token_id
    theirs.final_logits_bias[0, padding] = 5.0  # above all others
    theirs.save_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    given = tokenizer(["The dog sleeps."], return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**given, decoder_input_ids=torch.tensor([[padding]])).logits[0, -1]
    assert logits.argmax() == padding
    logits[padding] = -torch.inf
    # A translation of one token has nothing but its end.
    [[found]] = translate(loaded(tmp_path, **{"decoding.max_tokens": 1}), ["The dog sleeps."])
    expected = logits.log_softmax(-1)[theirs.config.eos_token_id]
    np.testing.assert_allclose(found.score, expected, atol=1e-5)


def test_generate_says_what_their_model_says(tmp_path):
    import torch
    import transformers

    theirs = peers.save_gpt2(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    prompt = torch.tensor([tokenizer("The dog").input_ids])
    with torch.no_grad():
        logits = theirs(prompt).logits[0, -1]
    best = logits.topk(3)
    options = dict(max_new_tokens=1, sampling=Sampling(temperature=0.0), top_n=3)
    ((generation,),) = generate(loaded(tmp_path), ["The dog"], **options)
    found = generation.tokens[0].best
    assert [token.piece for token in found] == tokenizer.convert_ids_to_tokens(best.indices)
    np.testing.assert_allclose([token.logit for token in found], best.values, atol=1e-5)
    expected = logits.softmax(-1)[best.indices]
    np.testing.assert_allclose([token.probability for token in found], expected, atol=1e-6)


@pytest.mark.parametrize(
    "save, kind",
    [
        (peers.save_marian, "encoder_decoder"),
        (peers.save_gpt2, "decoder_only"),
        (peers.save_bert, "encoder_only"),
        (peers.save_distilbert, "encoder_only"),
    ],
)
def test_their_models_are_explained_on_a_page(save, kind, tmp_path):
    save(tmp_path)
    document = explain(loaded(tmp_path), "The dog sleeps.", max_new_tokens=2)
    assert document.facts["family"] == kind
    for stack in document.stacks:
        for attention in stack.attentions:
            np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-5)
    assert page([[document]]).startswith("<!doctype html>")


def test_explain_says_what_their_model_says(tmp_path):
    import torch
    import transformers

    theirs = peers.save_gpt2(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    with torch.no_grad():
        logits = theirs(torch.tensor([tokenizer("The dog").input_ids])).logits[0, -1]
    document = explain(loaded(tmp_path), "The dog", top_n=3, max_new_tokens=1)
    found = document.steps[-1].best
    best = logits.topk(3)
    expected = tokenizer.convert_ids_to_tokens(best.indices)
    assert [each.token.piece for each in found] == expected
    np.testing.assert_allclose([each.logit for each in found], best.values, atol=1e-4)


def test_a_prompt_may_hold_the_token_that_ends_texts(tmp_path):
    import torch
    import transformers

    theirs = peers.save_gpt2(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "The dog<|endoftext|> a cat"
    prompt = torch.tensor([tokenizer(text).input_ids])
    assert tokenizer.eos_token_id in prompt[0, 1:-1]
    with torch.no_grad():
        best = theirs(prompt).logits[0, -1].topk(3)
    options = dict(max_new_tokens=3, sampling=Sampling(temperature=0.0), top_n=3)
    ((generation,),) = generate(loaded(tmp_path), [text], **options)
    found = generation.tokens[0].best
    assert [token.piece for token in found] == tokenizer.convert_ids_to_tokens(best.indices)
    np.testing.assert_allclose([token.logit for token in found], best.values, atol=1e-5)
    # It is no letter of the text, and what follows it stays.
    assert generation.text.startswith("The dog a cat") and "endoftext" not in generation.text


def test_classify_says_what_their_model_says(tmp_path):
    import torch
    import transformers

    names = {0: "statement", 1: "question"}
    theirs = peers.save_distilbert(tmp_path, "DistilBertForSequenceClassification", id2label=names)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = ["The dog reads a book.", "a cat?"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(inputs["input_ids"], inputs["attention_mask"]).logits.softmax(-1)
    first, second, nothing = classify(loaded(tmp_path), [*texts, ""])
    found = [first.probabilities, second.probabilities]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert [first.name, second.name] == [names[int(i)] for i in expected.argmax(-1)]
    assert nothing is None


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory):
    directory = tmp_path_factory.mktemp("marian")
    peers.save_marian(directory)
    sections = barely_trained(tiny, tmp_path_factory.mktemp("data"))
    run = tmp_path_factory.mktemp("run") / "w"
    train(sections, run, init=f"hf:{directory}")
    return sections, run, directory


def test_a_run_begins_with_the_weights_and_the_tokenizer(fine_tuned):
    _, run, directory = fine_tuned
    ours = load_pretrained(directory)
    stored = workdir.read_config(run)
    trained = workdir.load_trained(run)
    assert trained.vocabulary.fingerprint == ours.vocabulary.fingerprint
    expected = dataclasses.replace(
        ours.config, dropout_rate=0.0, attention_dropout_rate=0.0, feed_forward_dropout_rate=0.0
    )
    assert trained.sections.model == expected
    assert stored.data.vocabulary_size == ours.vocabulary.size
    assert_same(trained.params, ours.params)
    ((translation,),) = translate(trained, ["The dog sleeps."])
    assert np.isfinite(translation.score)


def test_such_a_run_can_be_scored_and_taken_up_again(fine_tuned):
    sections, run, directory = fine_tuned
    scores = score(run, "dev", translates=False)
    assert 1 < scores["perplexity"] < 1e6
    train(sections, run, init=f"hf:{directory}")
    with pytest.raises(ValueError, match="began with --init=hf:DIR: give it again"):
        train(read_sections(workdir.read_config(run)), run)


@pytest.mark.parametrize("format", ["marian", "ctranslate2"])
def test_such_a_run_goes_out_again(fine_tuned, tmp_path, format):
    _, run, directory = fine_tuned
    trained = workdir.load_trained(run)
    export(trained, format, tmp_path / "out", max_positions=64)
    if format == "marian":
        ours, back = load_pretrained(directory), load_pretrained(tmp_path / "out")
        assert back.vocabulary.fingerprint == ours.vocabulary.fingerprint
        assert_same(back.params, ours.params)
    else:
        import ctranslate2
        import transformers

        transformers.AutoTokenizer.from_pretrained(tmp_path / "out" / "tokenizer")
        translator = ctranslate2.Translator(str(tmp_path / "out"))
        (found,) = translator.translate_batch([["▁The", "▁dog"]], max_decoding_length=2)
        assert len(found.hypotheses[0]) <= 2


def test_lines_before_a_blank_prompt_are_continued(tmp_path):
    peers.save_gpt2(tmp_path)
    options = dict(max_new_tokens=2, sampling=Sampling(temperature=0.0))
    lines = generate_lines(loaded(tmp_path), [["a dog"], ["a cat", " ", "it"]], **options)
    assert [next(lines)[0], next(lines)[0]] == ["a dog", "a cat"]
    with pytest.raises(ValueError, match="line 3 is blank: this model knows no start token"):
        next(lines)


def test_a_line_may_begin_with_the_code_of_a_language(tmp_path, monkeypatch):
    peers.save_marian(tmp_path)
    vocabulary = loaded(tmp_path).vocabulary
    codes = vocabulary._tokenizer.supported_language_codes
    monkeypatch.setattr(vocabulary._tokenizer, "supported_language_codes", [*codes, ">>fra<<"])
    assert vocabulary.language_code(">>fra<< a dog") == ">>fra<<"
    assert vocabulary.language_code(">>deu<< a dog") == vocabulary.language_code("a dog") == ""


def test_a_language_model_goes_on_from_gpt2(tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    peers.save_gpt2(directory, n_positions=200)
    sections = barely_trained(language_model, tmp_path / "data", **{"model.rematerialise": True})
    train(sections, tmp_path / "w", init=f"hf:{directory}")
    trained = workdir.load_trained(tmp_path / "w")
    assert trained.sections.model.rematerialise
    assert_same(trained.params, load_pretrained(directory).params)


def test_a_classifier_goes_on_from_an_encoder(tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    peers.save_bert(directory, max_position_embeddings=200)
    sections = barely_trained(classifier, tmp_path / "data", **{"model.num_classes": 4})
    train(sections, tmp_path / "w", init=f"hf:{directory}")
    trained = workdir.load_trained(tmp_path / "w")
    expected = load_pretrained(directory)
    assert_same(trained.params["encoder"], expected.params["encoder"])
    assert trained.sections.model.pooling == "cls"
    assert trained.sections.model.num_classes == len(trained.classes)
    found = classify(trained, ["The dog sleeps."])
    assert found[0].name in trained.classes


@pytest.mark.parametrize(
    "names", [("one", "two", "three", "four"), ("good", "bad", "odd", "even")], ids=str
)
def test_a_head_is_used_for_its_own_classes_alone(names, tmp_path, capsys):
    directory = tmp_path / "in"
    directory.mkdir()
    labels = {"id2label": dict(enumerate(names)), "max_position_embeddings": 200}
    peers.save_bert(directory, "BertForSequenceClassification", **labels)
    sections = barely_trained(classifier, tmp_path / "data", **{"model.num_classes": 4})
    train(sections, tmp_path / "w", init=f"hf:{directory}")
    trained, theirs = workdir.load_trained(tmp_path / "w"), load_pretrained(directory).params
    assert trained.classes == ("four", "one", "three", "two")
    assert_same(trained.params["pooler"], theirs["pooler"])
    for leaf, values in (("classes", "table"), ("output", "bias")):
        found, table = trained.params[leaf][values], theirs[leaf][values]
        is_theirs = np.allclose(found, table[np.array([3, 0, 2, 1])], atol=1e-6)
        assert is_theirs == ("one" in names)
    said = "a head for good, bad, odd, even, the corpus has the classes four, one, three, two"
    assert (said in capsys.readouterr().err) == ("good" in names)


def test_a_task_that_the_weights_are_not_for_is_told(tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    peers.save_gpt2(directory)
    with pytest.raises(ValueError, match="'translation' cannot be learned by model.family='dec"):
        train(barely_trained(tiny, tmp_path / "data"), tmp_path / "w", init=f"hf:{directory}")
    assert not (tmp_path / "w").exists()


def test_a_pooling_that_the_weights_do_not_have_is_told(tmp_path):
    peers.save_bert(tmp_path, max_position_embeddings=200)
    changes = {"model.num_classes": 4, "model.pooling": "mean"}
    sections = barely_trained(classifier, tmp_path / "data", **changes)
    with pytest.raises(ValueError, match="model.pooling='mean', .* that of the weights, 'cls'"):
        pretrained.beginning(tmp_path, sections)


def test_weights_are_of_one_model(tmp_path):
    peers.save_marian(tmp_path)
    changes = {"model.ensemble_size": 2, "training.label_smoothing": 0.0}
    sections = barely_trained(tiny, tmp_path / "data", **changes)
    with pytest.raises(ValueError, match="model.ensemble_size=2, .* that of the weights, 1"):
        pretrained.beginning(tmp_path, sections)


def test_a_tokenizer_decides_on_its_case(tmp_path):
    peers.save_marian(tmp_path)
    changes = {"data.lowercase": True, "evaluation.bleu_lowercase": True}
    sections = barely_trained(tiny, tmp_path / "data", **changes)
    with pytest.raises(ValueError, match="data.lowercase=True does not go with --init"):
        pretrained.beginning(tmp_path, sections)


def test_label_smoothing_over_ids_without_probability_is_told(tmp_path):
    peers.save_marian(tmp_path)
    changes = {"training.label_smoothing": 0.1}
    sections = barely_trained(tiny, tmp_path / "data", **changes)
    with pytest.raises(ValueError, match=r"label_smoothing=0.1 .* \(0\): set it to 0 or training"):
        pretrained.beginning(tmp_path, sections)
    changes["training.label_smoothing_mass"] = "others_but_padding"
    pretrained.beginning(tmp_path, barely_trained(tiny, tmp_path / "data", **changes))


@pytest.mark.parametrize("name", ["/somewhere", "hf:", "opus-mt-en-de"])
def test_a_name_without_its_scheme_is_told(name):
    with pytest.raises(ValueError, match="must be hf:DIR"):
        pretrained.directory_of(name, "model")


def test_an_unknown_format_is_told(fine_tuned, tmp_path):
    _, run, _ = fine_tuned
    trained = workdir.load_trained(run)
    with pytest.raises(ValueError, match="--format=onnx is none of marian, ctranslate2"):
        export(trained, "onnx", tmp_path / "out", max_positions=64)
    with pytest.raises(ValueError, match="--max_positions=0 must be at least 1"):
        export(trained, "marian", tmp_path / "out", max_positions=0)
