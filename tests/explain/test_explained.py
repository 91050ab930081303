"""What is shown is what the model computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import MASK_ID, START_ID
from t2t_jax.decoding.sampling import Sampling
from t2t_jax.explain.document import as_lists
from t2t_jax.explain.explained import MOST_TOKENS, explain, explain_control
from t2t_jax.explain.heard import hear
from t2t_jax.explain.stacks import cosines
from t2t_jax.model.config import BIASED_POSITIONS
from t2t_jax.runs.classify import classify
from t2t_jax.runs.generate import generate
from t2t_jax.runs.translate import make_translator
from tests.explain.models import KINDS, TEXT, document, trained
from tests.model.configs import POSITIONS

TRANSFORMERS = [kind for kind in KINDS if kind != "recurrent"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weights_sum_to_one(kind):
    attentions = list(document(kind).attentions())
    assert attentions
    for attention in attentions:
        np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, positions, changes",
    [
        *((kind, "sinusoidal", {}) for kind in KINDS),
        *(("encoder_decoder", each, {}) for each in POSITIONS),
        ("encoder_decoder", "sinusoidal", {"model.score_divisor": "sqrt_d_model"}),
        ("decoder_only", "sinusoidal", {"model.score_divisor": "none"}),
    ],
)
def test_the_weights_are_the_softmax_of_the_scores_that_are_shown(kind, positions, changes):
    for attention in document(kind, positions, **changes).attentions():
        scores = attention.scores.astype(np.float64)
        products = np.einsum("HTK,HSK->HTS", attention.query, attention.key)
        if not changes:
            assert attention.divisor == attention.query.shape[-1] ** 0.5
        expected = products / attention.divisor
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-4)
        if attention.bias is not None:
            scores = scores + attention.bias
        if attention.looks == "decoder":
            scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        expected = exponentials / exponentials.sum(-1, keepdims=True)
        np.testing.assert_allclose(attention.weights, expected, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_logits_are_those_of_the_plain_forward_pass(kind):
    model, params = trained(kind).model, trained(kind).params
    found = document(kind)
    sides = [jnp.array([[token.id for token in stack.tokens]]) for stack in found.stacks]
    logits = np.asarray(model.apply({"params": params}, *sides, deterministic=True))[0]
    if kind == "classifier":
        np.testing.assert_allclose([each.logit for each in found.classes], logits, atol=1e-4)
        return
    probabilities = np.asarray(jax.nn.softmax(logits))
    is_masked = kind == "encoder_only"  # there each place is asked with its token hidden
    for place, step in enumerate(found.steps):
        if is_masked:
            hidden = sides[0].at[0, place].set(MASK_ID)
            logits = np.asarray(model.apply({"params": params}, hidden, deterministic=True))[0]
            probabilities = np.asarray(jax.nn.softmax(logits))
        for each in [step.chosen, *step.best]:
            np.testing.assert_allclose(each.logit, logits[place, each.token.id], atol=1e-4)
            np.testing.assert_allclose(
                each.probability, probabilities[place, each.token.id], atol=1e-5
            )
        best = [each.token.id for each in step.best]
        assert best == np.argsort(-logits[place, : trained(kind).vocabulary.size])[:5].tolist()


@pytest.mark.parametrize("kind", ["encoder_decoder", "recurrent"])
def test_the_best_leaf_is_what_translate_gives(kind):
    [[expected]] = make_translator(trained(kind))([TEXT])
    found = document(kind)
    assert [search.name for search in found.searches] == ["greedy", "beam"]
    assert found.searches[-1].text == found.output == expected.text
    np.testing.assert_allclose(found.searches[-1].score, expected.score, rtol=1e-4)
    written = [step.chosen.token.id for step in found.steps]
    assert written == found.searches[-1].tree.best_ids
    inputs = [token.id for token in found.stack("decoder").tokens]
    assert inputs == [START_ID, *written[:-1]]


def test_the_output_of_a_language_model_is_what_generate_gives():
    [[expected]] = generate(
        trained("decoder_only"), [TEXT], max_new_tokens=4, sampling=Sampling(temperature=0.0)
    )
    found = document("decoder_only")
    assert found.output == expected.text
    new = [step.chosen.token.id for step in found.steps if not step.is_given]
    assert new == [token.chosen.id for token in expected.tokens]


def test_the_class_is_what_classify_gives():
    [expected] = classify(trained("classifier"), [TEXT])
    np.testing.assert_allclose(
        [each.probability for each in document("classifier").classes],
        expected.probabilities,
        atol=1e-5,
    )


def test_nearest_rows_of_the_table_are_found_by_cosine():
    table = np.asarray(trained().params["embedding"]["table"])[: trained().vocabulary.size]
    stack = document().stack("encoder")
    for token, near in zip(stack.tokens, stack.neighbours, strict=True):
        cosines = {
            other: table[token.id] @ row / np.linalg.norm(table[token.id]) / np.linalg.norm(row)
            for other, row in enumerate(table)
            if other != token.id
        }
        best = sorted(cosines, key=cosines.get, reverse=True)[: len(near)]
        assert [each.token.id for each in near] == best
        np.testing.assert_allclose([each.cosine for each in near], [cosines[i] for i in best], 1e-4)


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_sub_layers_follow_one_another(kind):
    for stack in document(kind).stacks:
        num_per_layer = 3 if stack.name == "decoder" and kind == "encoder_decoder" else 2
        assert len(stack.sub_layers) == 2 * num_per_layer
        first = stack.sub_layers[0]
        np.testing.assert_allclose(first.length, np.linalg.norm(stack.embedded, axis=-1), 1e-5)
        assert all(np.all(abs(each.cosine) <= 1 + 1e-5) for each in stack.sub_layers)
        assert stack.cosine.shape == (3, len(stack.tokens), len(stack.tokens))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_last_cosines_are_of_what_the_encoder_hands_on(norm):
    stack = document(**{"model.norm": norm}).stack("encoder")
    loaded = trained(**{"model.norm": norm})
    source = jnp.array([[token.id for token in stack.tokens]])
    variables = {"params": loaded.params}
    states = loaded.model.apply(variables, source, deterministic=True, method="encode").states[0]
    assert len(stack.cosine) == (4 if norm == "pre" else 3)
    np.testing.assert_allclose(stack.cosine[-1], cosines(np.asarray(states)), atol=1e-5)


def test_a_sub_layer_is_measured_between_what_comes_in_and_what_goes_out():
    found, params = document(), trained().params
    encoder = found.stack("encoder")
    sides = [[token.id for token in stack.tokens] for stack in found.stacks]
    _, heard = hear(trained().model, params, *sides)
    layer = "encoder.layers_0"
    x = encoder.embedded
    for shown, update, after in (
        (encoder.sub_layers[0], "self_attentions_0.attend", "self_attention_residuals_0.__call__"),
        (encoder.sub_layers[1], "feed_forward.__call__", "feed_forward_residual.__call__"),
    ):
        if shown.name == "feed_forward":
            weights = params["encoder"]["layers_0"]["feed_forward"]["inner"]
            inner = x @ np.asarray(weights["kernel"]) + np.asarray(weights["bias"])
            np.testing.assert_allclose(encoder.active[0], np.mean(inner > 0, -1), rtol=1e-6)
        update, after = heard.array(f"{layer}.{update}"), heard.array(f"{layer}.{after}")
        for place in range(len(x)):
            length, out = np.linalg.norm(x[place]), np.linalg.norm(after[place])
            cosine = x[place] @ after[place] / length / out
            np.testing.assert_allclose(shown.length[place], length, rtol=1e-5)
            np.testing.assert_allclose(shown.update[place], np.linalg.norm(update[place]), 1e-5)
            np.testing.assert_allclose(shown.cosine[place], cosine, atol=1e-5)
        x = after
    np.testing.assert_array_equal(x, heard.array(f"{layer}.output"))


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_kind_of_positions_shows_what_it_has(positions):
    found = document("encoder_decoder", positions).stack("encoder").positions
    assert found.kind == positions
    has = tuple(each is not None for each in found[1:])
    if positions in BIASED_POSITIONS:
        assert has == (False, False, True)
    elif positions == "rotary":
        assert has == (False, True, False)
        np.testing.assert_allclose(np.diagonal(found.likeness), 1, atol=1e-6)
    elif positions == "none":
        assert has == (False, False, False)
    else:
        assert has == (True, True, False)


@pytest.mark.parametrize("kind", KINDS)
def test_the_control_reads_the_same_and_looks_elsewhere(kind):
    learned = document(kind)
    control = explain_control(trained(kind), learned)
    assert control.searches == []
    for one, other in zip(learned.stacks, control.stacks, strict=True):
        assert one.tokens == other.tokens
    assert [step.chosen.token for step in learned.steps] == [
        step.chosen.token for step in control.steps
    ]
    for one, other in zip(learned.attentions(), control.attentions(), strict=True):
        assert np.abs(one.weights - other.weights).max() > 1e-3


def test_an_ensemble_is_not_explained():
    with pytest.raises(ValueError, match="x is an ensemble, model.ensemble_size=2: only"):
        explain(trained("encoder_decoder", **{"model.ensemble_size": 2}), "the cat", label="x")


def test_a_model_without_attention_has_no_control():
    changes = {"model.recurrent_attention": False}
    learned = document("recurrent", **changes)
    with pytest.raises(
        ValueError, match="--control draws the projections of attention; this model"
    ):
        explain_control(trained("recurrent", **changes), learned)


def test_several_self_attentions_in_a_layer_are_all_there():
    found = document(**{"model.num_self_attentions": 2})
    assert [(each.layer, each.number) for each in found.stack("encoder").attentions] == [
        *((0, 0), (0, 1)),
        *((1, 0), (1, 1)),
    ]
    assert len(found.stack("encoder").sub_layers) == 6


@pytest.mark.parametrize(
    "changes",
    [
        {"model.norm": "pre"},
        {"model.tied_embeddings": "none"},
        {"model.norm": "none", "model.residual": False, "model.feed_forward": False},
    ],
    ids=str,
)
def test_other_models_are_shown_as_well(changes):
    found = document(**changes)
    np.testing.assert_allclose(
        found.stack("encoder").embedding
        + found.stack("encoder").positions.vectors[: len(found.stack("encoder").tokens)],
        found.stack("encoder").embedded,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "text, max_length, said",
    [
        ("  ", 64, "the text has no tokens"),
        ("a" * 200, 64, "more than data.max_length=64"),
        # With the sign of the word's beginning and the end token, one more than a page shows.
        ("a" * (MOST_TOKENS - 1), 300, "has 129 tokens: a page shows at most 128"),
    ],
)
def test_what_cannot_be_shown_is_told(text, max_length, said):
    with pytest.raises(ValueError, match=said):
        explain(trained(**{"data.max_length": max_length}), text)


def test_a_model_of_no_numbers_is_told():
    model = trained("classifier")
    params = jax.tree.map(lambda leaf: leaf * np.nan, model.params)
    with pytest.raises(ValueError, match="it diverged in training"):
        explain(model._replace(params=params), TEXT)


def test_as_lists_has_every_number_as_float32_has_it():
    found = as_lists(document())
    attention = document().stack("encoder").attentions[0]
    shown = found["stacks"][0]["attentions"][0]["weights"]
    np.testing.assert_array_equal(np.array(shown, np.float32), attention.weights)
    assert found["steps"][0]["chosen"]["token"]["id"] == document().steps[0].chosen.token.id
