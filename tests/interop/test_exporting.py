"""Models are exported to directories, or one sentence names the key in the way."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")

from configs import tiny  # noqa: E402
from t2t_jax.data.vocabulary.vocabulary import learn_vocabulary
from t2t_jax.interop.ctranslate2_export import export_ctranslate2  # noqa: E402
from t2t_jax.interop.exporting import new_directory  # noqa: E402
from t2t_jax.interop.huggingface import load_pretrained  # noqa: E402
from t2t_jax.interop.marian_export import export_marian  # noqa: E402
from t2t_jax.model.families import make_model  # noqa: E402
from t2t_jax.runs.sections import read_sections
from tests.interop import peers  # noqa: E402
from tests.interop.tokenizers import TEXTS  # noqa: E402
from tests.model.configs import random_variables, small  # noqa: E402

pytestmark = pytest.mark.parity
SIZES = dict(d_model=12, num_heads=3, d_k=4, d_v=4, vocabulary_rows=48)
DECODING = read_sections(tiny.get_config()).decoding
VOCABULARY = learn_vocabulary(TEXTS, "bpe", 45, 1.0)


def random_params(config):
    return jax.tree.map(np.asarray, random_variables(make_model(config))["params"])


def export_to(name, output, config, vocabulary=VOCABULARY, params=None):
    params = random_params(config) if params is None else params
    if name == "marian":
        languages = dict(languages=("en", "de"), decoding=DECODING)
        export_marian(config, params, vocabulary, output, max_positions=40, **languages)
    else:
        export_ctranslate2(config, params, vocabulary, output, max_positions=40)


@pytest.mark.parametrize("tied", ["all", "decoder", "none"])
def test_what_goes_out_to_marian_comes_back_the_same(tmp_path, tied):
    changes = dict(positions="sinusoidal_concatenated", norm_epsilon=1e-5, activation="swish")
    config = small(output_bias=True, tied_embeddings=tied, max_positions=1, **changes, **SIZES)
    params = random_params(config)
    export_to("marian", tmp_path / "out", config, params=params)
    back = load_pretrained(tmp_path / "out")
    for key in ("num_decoder_layers", "d_ff", "num_heads", "activation", "tied_embeddings"):
        assert getattr(back.config, key) == getattr(config, key)
    jax.tree.map(np.testing.assert_array_equal, back.params, params)
    assert back.vocabulary.encode(TEXTS) == VOCABULARY.encode(TEXTS)
    assert back.vocabulary.encode_target(TEXTS) == VOCABULARY.encode(TEXTS)


@pytest.mark.parametrize("tied", [True, False])
def test_what_came_from_marian_goes_back_the_same(tmp_path, tied):
    (tmp_path / "in").mkdir()
    changes = dict(share_encoder_decoder_embeddings=tied, max_position_embeddings=40)
    theirs = peers.save_marian(tmp_path / "in", **changes)
    ours = load_pretrained(tmp_path / "in")
    export_to("marian", tmp_path / "out", ours.config, ours.vocabulary, ours.params)
    import transformers

    back = transformers.MarianMTModel.from_pretrained(tmp_path / "out")
    for name, expected in theirs.state_dict().items():
        np.testing.assert_array_equal(back.state_dict()[name], expected, err_msg=name)
    special = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    for name in special:
        assert getattr(back.config, name) == getattr(theirs.config, name)
    tokens = [
        transformers.AutoTokenizer.from_pretrained(tmp_path / name)(TEXTS)["input_ids"]
        for name in ("in", "out")
    ]
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("name", ["marian", "ctranslate2"])
def test_what_is_there_is_never_overwritten(tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    config = small(norm_epsilon=1e-5, **SIZES)
    with pytest.raises(ValueError, match="out already exists and is not empty"):
        export_to(name, tmp_path / "out", config)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine"]


def test_the_directory_one_is_in_may_be_written_if_it_is_empty(tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    with new_directory(Path(".")) as directory:
        (directory / "model").touch()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model"]


def test_an_empty_directory_may_be_there(tmp_path):
    (tmp_path / "out").mkdir()
    export_to("marian", tmp_path / "out", small(norm_epsilon=1e-5, **SIZES))
    assert (tmp_path / "out" / "model.safetensors").is_file()


BOTH = ("marian", "ctranslate2")


@pytest.mark.parametrize(
    ("names", "changes", "told"),
    [
        (BOTH, {"family": "recurrent"}, "model.family='recurrent'"),
        (BOTH, {"num_self_attentions": 2}, "model.num_self_attentions=2"),
        (BOTH, {"ensemble_size": 2}, "model.ensemble_size=2"),
        (BOTH, {"d_k": 5}, r"model.d_k=5: .* model.d_model / model.num_heads, 4"),
        (BOTH, {"d_v": 3}, "model.d_v=3"),
        (BOTH, {"positions": "rotary"}, "model.positions='rotary'"),
        (BOTH, {"positions": "relative"}, "model.positions='relative'"),
        (BOTH, {"positions": "alibi"}, "model.positions='alibi'"),
        (
            ["ctranslate2"],
            {"num_encoder_layers": 0},
            "model.num_encoder_layers=0: CTranslate2 needs",
        ),
        (["marian"], {"positions": "learned"}, "model.positions='learned'"),
        (["marian"], {"positions": "sinusoidal_tensor2tensor"}, "model.positions='sinusoidal_te"),
        (["marian"], {"first_position": 1}, "model.first_position=1"),
        (["marian"], {"norm": "pre"}, "model.norm='pre': MarianMT can only have 'post'"),
        (["marian"], {"norm_epsilon": 1e-6}, "--config.model.norm_epsilon=1e-05"),
        (["marian"], {"embedding_norm": True}, "model.embedding_norm=True"),
        (["marian"], {"scale_logits": True}, "model.scale_logits=True"),
    ],
)
def test_what_they_cannot_be_is_told_by_its_key(tmp_path, names, changes, told):
    config = small(**({"norm_epsilon": 1e-5} | SIZES | changes))
    for name in names:
        with pytest.raises(ValueError, match=told):
            export_to(name, tmp_path / "out", config, params={})
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("formula", "penalty", "exported"), [("gnmt", 0.6, None), ("power", 0.6, 0.6), ("gnmt", 0.0, 0)]
)
def test_a_length_penalty_goes_out_where_marian_has_it_and_else_a_line_says_so(
    tmp_path, monkeypatch, capsys, formula, penalty, exported
):
    search = dict(length_penalty=penalty, length_penalty_formula=formula)
    monkeypatch.setitem(globals(), "DECODING", dataclasses.replace(DECODING, **search))
    export_to("marian", tmp_path / "out", small(norm_epsilon=1e-5, **SIZES))
    values = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert values.get("length_penalty") == exported
    said = "decoding.length_penalty=0.6 is left out, since MarianMT knows no other formula"
    assert (said in capsys.readouterr().err) == (exported is None)
