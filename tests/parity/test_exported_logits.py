"""Exported models of every layout give our logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ctranslate2 = pytest.importorskip("ctranslate2")

from t2t_jax.data.vocabulary.vocabulary import END_ID, START_ID, learn_vocabulary  # noqa: E402
from t2t_jax.interop.exporting import never_generated  # noqa: E402
from t2t_jax.model.families import make_model  # noqa: E402
from tests.interop.test_exporting import export_to  # noqa: E402
from tests.interop.tokenizers import TEXTS  # noqa: E402
from tests.model.configs import random_variables, small  # noqa: E402

pytestmark = pytest.mark.parity
TOLERANCE = 1e-5
SIZES = dict(d_model=12, num_heads=3, d_k=4, d_v=4, vocabulary_rows=48, num_encoder_layers=2)
VOCABULARY = learn_vocabulary(TEXTS, "bpe", 45, 1.0)
TOKENS = np.random.default_rng(0).integers(4, VOCABULARY.size, (3, 7))
SOURCE_LENGTHS, TARGET_LENGTHS = [7, 2, 5], [3, 6, 1]

# What the sources name and both or one of the formats can be.
EITHER = {
    "paper": {},
    "concatenated": {"positions": "sinusoidal_concatenated"},
    "swish": {"activation": "swish", "output_bias": True},
    "gelu": {"activation": "gelu", "scale_embeddings": False},
    "gelu_tanh": {"activation": "gelu_tanh", "tied_embeddings": "decoder"},
    "untied": {"tied_embeddings": "none", "output_bias": True},
    "no biases": {"attention_biases": False, "feed_forward_biases": False},
}
MARIAN_ALONE = {"no encoder layers": {"num_encoder_layers": 0}}
CTRANSLATE2_ALONE = {
    "epsilon": {"norm_epsilon": 0.1},
    "pre-norm": {"norm": "pre", "norm_epsilon": 1e-6},
    "tensor2tensor": {"positions": "sinusoidal_tensor2tensor", "first_position": 2},
    "learned": {"positions": "learned"},
    "no positions": {"positions": "none"},
    "embedding norm": {"embedding_norm": True},
    "scaled logits": {"scale_logits": True},
}


def padded(rows):
    ids = np.zeros((len(rows), max(map(len, rows))), int)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
    return ids


SOURCES = [[*ids[:length], END_ID] for ids, length in zip(TOKENS, SOURCE_LENGTHS, strict=True)]
TARGETS = [list(ids[::-1][:length]) for ids, length in zip(TOKENS, TARGET_LENGTHS, strict=True)]
INPUTS = padded([[START_ID, *target] for target in TARGETS])


def model_and_logits(changes):
    config = small(**(dict(norm_epsilon=1e-5) | SIZES | changes))
    model = make_model(config)
    params = random_variables(model)["params"]
    run = jax.jit(lambda params, *ids: model.apply({"params": params}, *ids, deterministic=True))
    logits = run(params, jnp.asarray(padded(SOURCES)), jnp.asarray(INPUTS))
    return config, jax.tree.map(np.asarray, params), np.array(logits)


def at_tokens(rows):
    """What stands at the places that predict a token of the target or its end."""
    return np.concatenate([row[: len(ids) + 1] for row, ids in zip(rows, TARGETS, strict=True)])


@pytest.mark.parametrize(
    "changes", [*EITHER.values(), *MARIAN_ALONE.values()], ids=[*EITHER, *MARIAN_ALONE]
)
def test_marian(tmp_path, changes, largest_difference):
    config, params, found = model_and_logits(changes)
    export_to("marian", tmp_path / "out", config, VOCABULARY, params)
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "out").eval()
    sources = torch.tensor(padded(SOURCES))
    with torch.no_grad():
        expected = theirs(
            input_ids=sources,
            attention_mask=(sources != 0).long(),
            decoder_input_ids=torch.tensor(INPUTS),
        ).logits.numpy()
    difference = largest_difference(
        "encoder-decoder, exported", "HF Marian", at_tokens(found), at_tokens(expected)
    )
    assert difference < TOLERANCE


@pytest.mark.parametrize(
    "changes", [*EITHER.values(), *CTRANSLATE2_ALONE.values()], ids=[*EITHER, *CTRANSLATE2_ALONE]
)
def test_ctranslate2(tmp_path, changes, largest_difference):
    config, params, logits = model_and_logits(changes)
    export_to("ctranslate2", tmp_path / "out", config, VOCABULARY, params)
    pieces = [[VOCABULARY.piece(int(i)) for i in source[:-1]] for source in SOURCES]
    targets = [[VOCABULARY.piece(int(i)) for i in target] for target in TARGETS]
    translator = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32")
    scored = translator.score_batch(pieces, targets)

    logits[..., never_generated(VOCABULARY, config.vocabulary_rows)] = -1e9
    log_probs = np.asarray(jax.nn.log_softmax(logits))
    next_ids = padded([[*target, END_ID] for target in TARGETS])
    found = np.take_along_axis(log_probs, next_ids[..., None], axis=-1)[..., 0]
    expected = [np.array(row.log_probs, np.float32) for row in scored]
    difference = largest_difference(
        "encoder-decoder, exported",
        "CTranslate2 (log-probabilities)",
        at_tokens(found),
        np.concatenate(expected),
    )
    assert difference < TOLERANCE
