"""The recurrent encoder-decoder: formulas of its parts, and properties of the whole."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from t2t_jax.data.batches.batches import Batch
from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID, learn_vocabulary
from t2t_jax.decoding.translate import Translator, make_decode
from t2t_jax.model.capture import capture
from t2t_jax.model.families import make_model
from t2t_jax.model.masks import Packing
from t2t_jax.model.recurrent import EncoderLayer, RecurrentTranslator
from t2t_jax.training.loss import make_loss_fn
from tests.decoding.configs import beam_of_3
from tests.model.configs import logits_of, random_variables, small, some_ids
from tests.model.probes import step_by_step

B, W, T, S = 2, 3, 4, 5
N = B * W  # at least as many as there are places in a source or target, and one
VARIANTS = [
    {"recurrent_cell": "tanh"},
    {"recurrent_cell": "gru", "recurrent_attention": False, "tied_embeddings": "decoder"},
    {"num_encoder_layers": 2, "num_decoder_layers": 1},
    {"recurrent_attention": False, "tied_embeddings": "none", "output_bias": True},
]
every_variant = pytest.mark.parametrize("changes", VARIANTS, ids=str)


@cache
def _parts(**changes):
    """The model, variables, and its logits compiled: nearly all of a test's time otherwise."""
    model = RecurrentTranslator(small(family="recurrent", **changes))
    return model, random_variables(model), jax.jit(partial(model.apply, deterministic=True))


def _with_each_place_changed(ids):
    """The one row of `ids` N times: row i + 1 has another token at place i."""
    rows = np.repeat(np.asarray(ids), N, axis=0)
    for place in range(ids.shape[1]):
        rows[place + 1, place] = 4 + (rows[place + 1, place] - 3) % 7
    return jnp.asarray(rows)


@every_variant
def test_a_target_token_changes_the_logits_from_its_place_on_and_none_before(changes):
    _, variables, logits_of = _parts(**changes)
    source = jnp.repeat(some_ids(1, S), N, axis=0)
    target = _with_each_place_changed(some_ids(1, T, seed=1))
    logits = np.asarray(logits_of(variables, source, target))
    for place in range(T):
        change = np.abs(logits[place + 1] - logits[0]).max(axis=-1)
        np.testing.assert_array_equal(change[:place], 0)
        assert np.all(change[place:] > 1e-6)


@every_variant
def test_every_source_token_is_known_at_every_target_position(changes):
    """With attention or without: the first token and the last."""
    _, variables, logits_of = _parts(**changes)
    source = _with_each_place_changed(some_ids(1, S))
    target = jnp.repeat(some_ids(1, T, seed=1), N, axis=0)
    logits = np.asarray(logits_of(variables, source, target))
    change = np.abs(logits[1 : S + 1] - logits[0]).max(axis=-1)
    assert np.all(change > 1e-6)


@every_variant
def test_more_padding_changes_nothing(changes):
    _, variables, logits_of = _parts(**changes)
    source = some_ids(N, S).at[1, 3:].set(PAD_ID)
    target = some_ids(N, T, seed=1)
    padded = jnp.pad(source, ((0, 1), (0, 3))), jnp.pad(target, ((0, 1), (0, 2)))
    expected = logits_of(variables, source, target)
    actual = logits_of(variables, *padded)
    assert np.isfinite(actual).all()  # a row of nothing but padding too
    np.testing.assert_allclose(actual[:N, :T], expected, atol=1e-5)


@every_variant
def test_cached_decoding_equals_the_full_forward_pass(changes):
    model, variables, logits_of = _parts(**changes)
    source = some_ids(B, S).at[1, 3:].set(PAD_ID)
    target = some_ids(N, T, seed=1)
    expected = logits_of(variables, jnp.repeat(source, W, axis=0), target)
    actual, _ = step_by_step(model, variables, target, source)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_beams_share_the_memory_and_have_their_own_cache():
    model, variables, _ = _parts()

    def start(source):
        encoded = model.apply(variables, source, deterministic=True, method="encode")
        return encoded, model.apply(variables, encoded, N, T, method="start_cache")

    encoded, cache = jax.eval_shape(start, some_ids(B, S))
    assert {leaf.shape[0] for leaf in jax.tree.leaves(encoded)} == {B}
    assert {leaf.shape[0] for leaf in jax.tree.leaves(cache)} == {N}


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _gru(params, h, x):
    """Cho et al. 2014 as PyTorch and Flax have it: the reset gate is on the product with h."""

    def part(name, gate=None):
        of_h = h @ params[f"h{name}"]["kernel"] + params[f"h{name}"].get("bias", 0)
        of_x = x @ params[f"i{name}"]["kernel"] + params[f"i{name}"].get("bias", 0)
        return of_x + (of_h if gate is None else gate * of_h)

    r, z = _sigmoid(part("r")), _sigmoid(part("z"))
    return (1 - z) * np.tanh(part("n", r)) + z * h


def test_the_forward_pass_is_the_papers_formulas_in_a_loop():
    """GRU, one encoder and one decoder layer, attention: position by position in NumPy."""
    changes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "recurrent_cell": "gru"}
    _, variables, logits_of = _parts(**changes)
    source, target = some_ids(N, S), some_ids(N, T, seed=1)
    logits = logits_of(variables, source, target)

    params = jax.tree.map(np.asarray, variables["params"])
    table = params["embedding"]["table"]
    vectors = table[np.asarray(source[0])] * 12**0.5
    directions = params["encoder_layers_0"]["directions"]
    forwards, backwards = [np.zeros(6)], [np.zeros(6)]
    for s in range(S):
        forwards.append(_gru(directions["forward_rnn"]["cell"], forwards[-1], vectors[s]))
        last_first = vectors[S - 1 - s]
        backwards.append(_gru(directions["backward_rnn"]["cell"], backwards[-1], last_first))
    states = np.concatenate([forwards[1:], backwards[:0:-1]], axis=-1)
    last = np.concatenate([forwards[-1], backwards[-1]])

    decoder, attention = params["decoder_layers_0"], params["attention"]
    h = np.tanh(last @ decoder["bridge"]["kernel"] + decoder["bridge"]["bias"])
    for t in range(T):
        h = _gru(decoder["cell"], h, table[int(target[0, t])] * 12**0.5)
        scores = states @ attention["key"]["kernel"] @ h / 12**0.5
        weights = np.exp(scores) / np.exp(scores).sum()
        attended = np.concatenate([weights @ states, h]) @ attention["combine"]["kernel"]
        np.testing.assert_allclose(logits[0, t], table @ np.tanh(attended), atol=1e-5)


@pytest.mark.parametrize("attends", [True, False])
def test_the_gradient_reaches_every_parameter_and_following_it_helps(attends):
    changes = dict(recurrent_attention=attends, tied_embeddings="none", num_encoder_layers=2)
    model, variables, _ = _parts(**changes)
    loss_fn = make_loss_fn(model, 0.1)
    batch = Batch(some_ids(B, S), some_ids(B, T, seed=1))
    gradient = jax.jit(jax.value_and_grad(lambda params: loss_fn(params, batch, None)[0]))
    params = variables["params"]
    before, grads = gradient(params)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(grads))
    after, _ = gradient(jax.tree.map(lambda leaf, grad: leaf - 1e-3 * grad, params, grads))
    assert after < before


def test_dropout_is_on_embeddings_and_every_output():
    model, variables, logits_of = _parts(dropout_rate=0.5)
    source, target = some_ids(N, S), some_ids(N, T)

    def dropped(seed):
        rngs = {"dropout": jax.random.key(seed)}
        return model.apply(variables, source, target, deterministic=False, rngs=rngs)

    shapes = []

    def record(next_function, arguments, keywords, context):
        if isinstance(context.module, nn.Dropout):
            shapes.append(arguments[0].shape)
        return next_function(*arguments, **keywords)

    with nn.intercept_methods(record):
        dropped_of = jax.jit(dropped)
        logits = dropped_of(0)
    # Embeddings and layers: 1 of the encoder, 2 of the decoder; and what attention adds.
    assert shapes == [(N, S, 12)] * (1 + 1) + [(N, T, 12)] * (1 + 2 + 1)
    assert not np.allclose(logits, logits_of(variables, source, target))
    assert not np.allclose(logits, dropped_of(1))


@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_bfloat16_stays_close_to_float32(cell):
    """Eight bits of mantissa through three layers: logits of size one differ by a few percent."""
    _, variables, logits_of = _parts(recurrent_cell=cell)
    _, _, half_of = _parts(recurrent_cell=cell, dtype="bfloat16")
    source, target = some_ids(N, S), some_ids(N, T)
    actual = half_of(variables, source, target)
    assert actual.dtype == jnp.float32
    np.testing.assert_allclose(actual, logits_of(variables, source, target), atol=0.1)


def test_attention_weights_and_states_can_be_captured():
    model, variables, _ = _parts()
    source = some_ids(N, S).at[1, 3:].set(PAD_ID)
    target = some_ids(N, T, seed=1)
    _, seen = jax.jit(
        lambda: capture(model, variables["params"], None, source, target, deterministic=True)
    )()
    weights = seen["attention.weights"]
    assert weights.shape == (N, 1, T, S)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(weights[1, :, :, 3:], 0)
    assert seen["encoder_layers_0.output"].shape == (N, S, 12)
    assert seen["decoder_layers_1.output"].shape == (N, T, 12)


@pytest.mark.parametrize("attends", [True, False])
def test_beam_search_scores_are_the_likelihood_of_the_full_forward_pass(attends):
    model, variables, logits_of = _parts(recurrent_attention=attends)
    decoding = beam_of_3(length_penalty=1.0, length_penalty_formula="power", max_tokens=T)
    source = some_ids(B, S).at[:, -1].set(END_ID).at[1, 2:].set([END_ID, PAD_ID, PAD_ID])
    found = jax.jit(make_decode(model, decoding, 11))(variables["params"], source)
    ids = found.ids.reshape(N, T)
    inputs = jnp.pad(ids, ((0, 0), (1, 0)), constant_values=START_ID)[:, :-1]
    logits = logits_of(variables, jnp.repeat(source, W, axis=0), inputs)
    log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits), ids[:, :, None], axis=2)[:, :, 0]
    means = jnp.where(ids > 0, log_probs, 0).sum(1) / (ids > 0).sum(1)
    np.testing.assert_allclose(found.scores.reshape(N), means, rtol=1e-4)
    assert len({tuple(row) for row in ids[:W].tolist()}) == W


def test_a_translator_asks_for_no_more_positions_than_a_recurrence_has():
    """Whatever `positions` says: there is no table whose end could be reached."""
    sentences = ["a", "the dog sees a cat", ""]
    vocabulary = learn_vocabulary(sentences, "char", 30, 1.0)
    model, variables, _ = _parts(vocabulary_rows=30, positions="learned", max_positions=1)
    decoding = beam_of_3(beam_size=1, n_best=1)
    translate = Translator(model, variables["params"], vocabulary, decoding, compile=jax.jit)
    translations = translate(sentences)
    assert [len(best) for best in translations] == [1, 1, 1]
    assert translations[2][0].text == ""


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"d_model": 13, "positions": "none"}, r"model\.d_model=13 is odd; family='recurrent'"),
        ({"num_encoder_layers": 0}, r"model\.num_encoder_layers=0 must be at least 1"),
        ({"num_decoder_layers": 0}, r"model\.num_decoder_layers=0 must be at least 1"),
    ],
)
def test_sizes_no_recurrence_can_have_are_refused_in_words(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        small(family="recurrent", **changes)


def test_packed_rows_are_refused_in_words():
    model, variables, _ = _parts()
    ids = some_ids(1, S)
    packing = Packing(jnp.ones_like(ids), jnp.arange(S)[None])
    with pytest.raises(ValueError, match="model.family='recurrent' cannot read packed rows"):
        logits_of(model, variables, ids, ids, (packing, packing))


@pytest.mark.parametrize("cell", ["tanh", "gru", "lstm"])
def test_the_last_state_of_either_direction_is_of_its_last_token(cell):
    module = EncoderLayer(small(family="recurrent", recurrent_cell=cell))
    x, lengths = jax.random.normal(jax.random.key(1), (2, S, 12)), jnp.asarray([S, 3])
    (states, last), _ = module.init_with_output(jax.random.key(0), x, lengths)
    for row, length in enumerate((S, 3)):
        np.testing.assert_allclose(last[row, :6], states[row, length - 1, :6], atol=1e-6)
        np.testing.assert_allclose(last[row, 6:], states[row, 0, 6:], atol=1e-6)


@pytest.mark.parametrize(
    ("cell", "dtype"), [("tanh", "bfloat16"), ("gru", "float32"), ("lstm", "float32")]
)
def test_states_of_gates_are_float32(cell, dtype):
    model = make_model(small(family="recurrent", recurrent_cell=cell, dtype="bfloat16"))

    def cache(ids):
        encoded = model.apply(variables, ids, deterministic=True, method="encode")
        return model.apply(variables, encoded, B, T, method="start_cache")

    variables = random_variables(model)
    types = {leaf.dtype for leaf in jax.tree.leaves(jax.eval_shape(cache, some_ids(B, S)))}
    assert types == {jnp.dtype(dtype)}
