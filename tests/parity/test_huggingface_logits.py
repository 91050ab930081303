"""Logits of imported models equal those of the `transformers` library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from t2t_jax.interop.huggingface import load_pretrained  # noqa: E402
from t2t_jax.model.families import make_model  # noqa: E402
from tests.interop import peers  # noqa: E402

pytestmark = pytest.mark.parity
TOLERANCE = 1e-5


def apply(pretrained, *ids):
    model = make_model(pretrained.config)
    ids = [jnp.asarray(array, jnp.int32) for array in ids]
    params = jax.tree.map(jnp.asarray, pretrained.params)
    run = jax.jit(lambda params, *ids: model.apply({"params": params}, *ids, deterministic=True))
    return np.asarray(run(params, *ids))


def padded_rows(lengths, ids, padding, seed=0):
    """Random `ids` in rows of these lengths, padded on the right."""
    rng = np.random.default_rng(seed)
    padded = np.full((len(lengths), max(lengths)), padding)
    for row, length in enumerate(lengths):
        padded[row, :length] = rng.choice(ids, length)
    return padded


def our_ids(pretrained, their_ids, lengths):
    """The same rows in our ids; their padding, which may be a token too, by the lengths."""
    ids = pretrained.vocabulary.rows.ours[their_ids]
    return np.where(np.arange(ids.shape[1]) < np.array(lengths)[:, None], ids, 0)


def mask(lengths):
    return torch.tensor(np.arange(max(lengths)) < np.array(lengths)[:, None]).long()


def at_tokens(logits, lengths):
    return np.concatenate([row[:length] for row, length in zip(logits, lengths, strict=True)])


def in_their_order(pretrained, logits):
    """Our logits of the rows that are theirs, in their order."""
    return logits[..., pretrained.vocabulary.rows.ours]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "relu", "scale_embedding": False},
        {"share_encoder_decoder_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    ],
    ids=["opus-mt", "relu", "tied-decoder", "untied"],
)
def test_marian(tmp_path, changes, largest_difference):
    theirs = peers.save_marian(tmp_path, **changes)
    ours = load_pretrained(tmp_path)
    num_tokens = theirs.config.vocab_size - 1
    source_lengths, target_lengths = [7, 3, 5], [4, 6, 1]
    sources = padded_rows(source_lengths, range(num_tokens), num_tokens)
    targets = padded_rows(target_lengths, range(num_tokens), num_tokens, seed=1)
    targets[:, 0] = theirs.config.decoder_start_token_id
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(sources),
            attention_mask=mask(source_lengths),
            decoder_input_ids=torch.tensor(targets),
        ).logits.numpy()
    found = apply(
        ours, our_ids(ours, sources, source_lengths), our_ids(ours, targets, target_lengths)
    )
    found = in_their_order(ours, found)
    difference = largest_difference(
        "encoder-decoder",
        "HF Marian",
        at_tokens(found, target_lengths),
        at_tokens(expected, target_lengths),
    )
    assert difference < TOLERANCE


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False}], ids=["gpt2", "untied"])
def test_gpt2(tmp_path, changes, largest_difference):
    theirs = peers.save_gpt2(tmp_path, **changes)
    ours = load_pretrained(tmp_path)
    lengths = [9, 1, 6]
    ids = padded_rows(lengths, range(theirs.config.vocab_size), 0)
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), attention_mask=mask(lengths)).logits.numpy()
    found = in_their_order(ours, apply(ours, our_ids(ours, ids, lengths)))
    difference = largest_difference(
        "decoder-only", "HF GPT-2", at_tokens(found, lengths), at_tokens(expected, lengths)
    )
    assert difference < TOLERANCE


@pytest.mark.parametrize(
    ("save", "kind", "peer"),
    [
        (peers.save_bert, "BertForMaskedLM", "HF BERT, masked tokens"),
        (peers.save_bert, "BertForPreTraining", "HF BERT, masked tokens"),
        (peers.save_distilbert, "DistilBertForMaskedLM", "HF DistilBERT, masked tokens"),
    ],
)
def test_masked_tokens(tmp_path, save, kind, peer, largest_difference):
    theirs = save(tmp_path, kind)
    ours = load_pretrained(tmp_path)
    lengths = [9, 2, 6]
    ids = padded_rows(lengths, range(1, theirs.config.vocab_size), 0)
    with torch.no_grad():
        output = theirs(torch.tensor(ids), attention_mask=mask(lengths))
    expected = getattr(output, "logits", None)
    expected = (output.prediction_logits if expected is None else expected).numpy()
    found = in_their_order(ours, apply(ours, our_ids(ours, ids, lengths)))
    difference = largest_difference(
        "encoder-only", peer, at_tokens(found, lengths), at_tokens(expected, lengths)
    )
    assert difference < TOLERANCE


@pytest.mark.parametrize(
    ("save", "kind", "peer"),
    [
        (peers.save_bert, "BertForSequenceClassification", "HF BERT, classes"),
        (peers.save_distilbert, "DistilBertForSequenceClassification", "HF DistilBERT, classes"),
    ],
)
def test_classes(tmp_path, save, kind, peer, largest_difference):
    theirs = save(tmp_path, kind, num_labels=3)
    ours = load_pretrained(tmp_path)
    lengths = [9, 2, 6, 1]
    ids = padded_rows(lengths, range(1, theirs.config.vocab_size), 0)
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), attention_mask=mask(lengths)).logits.numpy()
    found = apply(ours, our_ids(ours, ids, lengths))
    assert largest_difference("encoder-only", peer, found, expected) < TOLERANCE


def test_probabilities_of_a_model_whose_tokens_serve_twice(tmp_path):
    theirs = peers.save_gpt2(tmp_path)
    ours = load_pretrained(tmp_path)
    ids = padded_rows([5], range(theirs.config.vocab_size), 0)
    with torch.no_grad():
        expected = torch.softmax(theirs(torch.tensor(ids)).logits, -1).numpy()
    found = jax.nn.softmax(apply(ours, our_ids(ours, ids, [5])))
    assert found.shape[-1] == expected.shape[-1] + 3  # padding, start and unknown
    np.testing.assert_allclose(in_their_order(ours, found), expected, atol=1e-6)
