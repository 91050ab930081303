"""Unsupported directories are refused in one sentence; heads are loaded as requested."""

import json
from functools import partial

import jax
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.numpy import load_file, save_file  # noqa: E402

from t2t_jax.interop.huggingface import load_pretrained  # noqa: E402
from t2t_jax.model.families import make_model, parameter_shapes  # noqa: E402
from tests.interop import peers  # noqa: E402

pytestmark = pytest.mark.parity


def change_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_tensors(directory, change):
    path = directory / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def shapes_of(tree):
    return jax.tree.map(lambda leaf: leaf.shape, tree)


@pytest.mark.parametrize(
    ("save", "kind"),
    [
        (peers.save_marian, {}),
        (peers.save_gpt2, {}),
        (peers.save_bert, {"kind": "BertForMaskedLM"}),
        (peers.save_bert, {"kind": "BertForSequenceClassification", "num_labels": 3}),
        (peers.save_distilbert, {"kind": "DistilBertForMaskedLM"}),
        (peers.save_distilbert, {"kind": "DistilBertForSequenceClassification"}),
    ],
    ids=["marian", "gpt2", "bert", "bert-classes", "distilbert", "distilbert-classes"],
)
def test_parameters_are_just_those_of_our_model(tmp_path, save, kind):
    save(tmp_path, **kind)
    ours = load_pretrained(tmp_path)
    assert shapes_of(ours.params) == shapes_of(parameter_shapes(make_model(ours.config)))
    assert {leaf.dtype for leaf in jax.tree.leaves(ours.params)} == {np.dtype("float32")}
    assert ours.vocabulary.size <= ours.config.vocabulary_rows


def test_a_prompt_of_gpt2_opens_with_no_start_token(tmp_path):
    peers.save_gpt2(tmp_path)
    assert not load_pretrained(tmp_path).opens_with_start


def test_names_of_classes_are_read(tmp_path):
    names = {0: "statement", 1: "question"}
    peers.save_bert(tmp_path, "BertForSequenceClassification", id2label=names)
    assert load_pretrained(tmp_path).class_names == ("statement", "question")


def test_older_files_hold_more(tmp_path):
    peers.save_bert(tmp_path, "BertForPreTraining")
    new = load_pretrained(tmp_path)

    def older(tensors):
        for name in list(tensors):
            if "LayerNorm" in name:
                old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
                tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = np.arange(16)[None]
        table = tensors["bert.embeddings.word_embeddings.weight"]
        tensors["cls.predictions.decoder.weight"] = table.copy()

    change_tensors(tmp_path, older)
    jax.tree.map(np.testing.assert_array_equal, load_pretrained(tmp_path).params, new.params)


def test_a_tied_table_is_found_under_any_of_its_names(tmp_path):
    peers.save_marian(tmp_path)
    before = load_pretrained(tmp_path)

    def renamed(tensors):
        tensors["lm_head.weight"] = tensors.pop("model.shared.weight")

    change_tensors(tmp_path, renamed)
    jax.tree.map(np.testing.assert_array_equal, load_pretrained(tmp_path).params, before.params)


@pytest.mark.parametrize(
    "kind",
    [
        *("BertModel", "BertForMaskedLM", "BertForSequenceClassification"),
        *("BertForTokenClassification", "BertForQuestionAnswering"),
    ],
)
@pytest.mark.parametrize("head", ["masked", "classes"])
def test_a_head_that_is_not_there_is_left_to_be_trained(tmp_path, kind, head):
    peers.save_bert(tmp_path, kind)
    ours = load_pretrained(tmp_path, head=head, num_classes=5)
    expected = shapes_of(parameter_shapes(make_model(ours.config)))
    fresh = {"masked": {"transform", "transform_norm", "output"}, "classes": {"classes", "output"}}
    has_it = (kind, head) == ("BertForMaskedLM", "masked")
    missing = set() if has_it else fresh[head]
    has_pooler = kind in ("BertModel", "BertForSequenceClassification")
    if head == "classes" and not has_pooler:
        missing = missing | {"pooler"}
    assert set(expected) - set(ours.params) == missing
    assert shapes_of(ours.params) == {part: expected[part] for part in ours.params}
    assert ours.config.num_classes == (5 if head == "classes" else 2)


def test_an_encoder_without_a_head_cannot_be_used(tmp_path):
    peers.save_bert(tmp_path, "BertModel")
    with pytest.raises(ValueError, match="an encoder without a head"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("save", "kind", "pooler"),
    [
        (peers.save_bert, "BertForSequenceClassification", "bert.pooler.dense"),
        (peers.save_distilbert, "DistilBertForSequenceClassification", "pre_classifier"),
    ],
)
def test_a_classifier_without_its_pooler_is_told_unless_it_is_to_be_learned(
    tmp_path, save, kind, pooler
):
    save(tmp_path, kind)

    def without_pooler(tensors):
        for name in ("weight", "bias"):
            del tensors[f"{pooler}.{name}"]

    change_tensors(tmp_path, without_pooler)
    told = rf"the tensor {pooler.removeprefix('bert.')}\.(weight|bias) is missing"
    with pytest.raises(ValueError, match=told):
        load_pretrained(tmp_path)
    assert "pooler" not in load_pretrained(tmp_path, head="classes", num_classes=5).params


def test_a_missing_tensor_is_told(tmp_path):
    peers.save_gpt2(tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.pop("transformer.h.1.ln_2.bias"))
    with pytest.raises(ValueError, match=r"the tensor h\.1\.ln_2\.bias is missing"):
        load_pretrained(tmp_path)


def test_a_misshapen_tensor_is_told(tmp_path):
    peers.save_marian(tmp_path)
    change_config(tmp_path, encoder_ffn_dim=21, decoder_ffn_dim=21)
    told = r"encoder\.layers\.0\.fc1\.weight has the shape \[20, 12\].* wants \[21, 12\]"
    with pytest.raises(ValueError, match=told):
        load_pretrained(tmp_path)


def test_a_tensor_too_many_is_told(tmp_path):
    peers.save_marian(tmp_path)
    change_config(tmp_path, encoder_layers=1)
    told = r"encoder\.layers\.1\.fc1\.bias of shape \[20\] \(and 15 more\) has no place"
    with pytest.raises(ValueError, match=told):
        load_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("save", "changes", "told"),
    [
        (peers.save_marian, {"activation_function": "mish"}, "activation_function='mish'; only"),
        (peers.save_marian, {"decoder_attention_heads": 4}, "decoder_attention_heads=4; only 3"),
        (peers.save_marian, {"decoder_vocab_size": 9}, "decoder_vocab_size=9; only"),
        (peers.save_gpt2, {"scale_attn_weights": False}, "scale_attn_weights=False; only True"),
        (peers.save_gpt2, {"n_head": 4}, "4 heads cannot share a width of 15"),
        (peers.save_bert, {"is_decoder": True}, "is_decoder=True; only False"),
        (
            partial(peers.save_bert, kind="BertForSequenceClassification"),
            {"problem_type": "regression"},
            "problem_type='regression'; only None",
        ),
        (
            partial(peers.save_distilbert, kind="DistilBertForSequenceClassification"),
            {"problem_type": "multi_label_classification"},
            "problem_type='multi_label_classification'; only None or 'single_label_classificati",
        ),
        (peers.save_bert, {"model_type": "t5"}, "model_type='t5' cannot be read; marian, gpt2,"),
        (peers.save_bert, {"model_type": None}, "has no model_type"),
        (peers.save_bert, {"hidden_size": "wide"}, "config.json cannot be read"),
    ],
)
def test_what_ours_cannot_be_is_told(tmp_path, save, changes, told):
    save(tmp_path)
    change_config(tmp_path, **changes)
    with pytest.raises(ValueError, match=told):
        load_pretrained(tmp_path)


def test_one_label_is_told_to_be_no_class(tmp_path):
    peers.save_bert(tmp_path, "BertForSequenceClassification", num_labels=1)
    with pytest.raises(ValueError, match="with one label the model predicts a number, not a class"):
        load_pretrained(tmp_path)
    assert load_pretrained(tmp_path, head="classes", num_classes=3).config.num_classes == 3


@pytest.mark.parametrize("kind", ["TokenClassification", "QuestionAnswering"])
@pytest.mark.parametrize("save", [peers.save_bert, peers.save_distilbert])
def test_a_head_for_tokens_is_none_for_texts(tmp_path, save, kind):
    save(tmp_path, {peers.save_bert: "Bert"}.get(save, "DistilBert") + f"For{kind}")
    with pytest.raises(ValueError, match="without a head for masked tokens or for classes of t"):
        load_pretrained(tmp_path)
    assert load_pretrained(tmp_path, head="classes", num_classes=2).class_names == ()


def test_vocabularies_of_their_own_are_told(tmp_path):
    peers.save_marian(tmp_path)
    (tmp_path / "target_vocab.json").write_text((tmp_path / "vocab.json").read_text())
    values = json.loads((tmp_path / "tokenizer_config.json").read_text())
    values["separate_vocabs"] = True
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match="vocabularies of their own"):
        load_pretrained(tmp_path)


def test_nothing_is_fetched(tmp_path):
    with pytest.raises(ValueError, match="is not a directory: models are read from disk"):
        load_pretrained(tmp_path / "Helsinki-NLP" / "opus-mt-en-de")
    with pytest.raises(ValueError, match="has no config.json, so it is not"):
        load_pretrained(tmp_path)
