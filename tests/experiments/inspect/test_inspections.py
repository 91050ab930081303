"""Measurements on trained models: how far gradients reach, and how many heads are needed."""

import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.inspect import gradient_reach, pruning
from experiments.inspect.gradient_reach import gradient_norms
from experiments.inspect.pruning import importances, table, without
from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.families import make_model
from t2t_jax.runs.train import train
from t2t_jax.training.loss import make_loss_fn
from tests.model.configs import small
from tests.runs.configs import smallest

IDS = jnp.ones((1, 1), jnp.int32)


def built(**changes):
    model = make_model(small(**changes))
    return model, model.init(jax.random.key(0), IDS, IDS, deterministic=True)["params"]


def test_attention_reaches_far_words_as_near_ones_and_recurrence_does_not():
    sizes = {"vocabulary_rows": 64, "num_encoder_layers": 1}
    by_family = {
        family: gradient_norms(
            *built(family=family, recurrent_cell="tanh", **sizes), 64, length=33, num_sentences=8
        )
        for family in ("encoder_decoder", "recurrent")
    }
    for norms in by_family.values():
        assert norms.shape == (33,) and (norms[0] > norms[1:]).all()
    attention, recurrence = (norms[[8, 32]] for norms in by_family.values())
    assert attention[1] > 0.3 * attention[0]
    assert recurrence[1] < 0.01 * recurrence[0]


def test_too_few_pieces_for_different_words_are_told():
    with pytest.raises(ValueError, match="65 different words need more than 11 pieces"):
        gradient_norms(*built(), 11)


def batches(number=3):
    rng = np.random.default_rng(0)
    return [Batch(*rng.integers(4, 11, (2, 4, 6)).astype(np.int32)) for _ in range(number)]


def test_the_importance_of_a_head_is_the_slope_of_the_loss_along_its_output():
    model, params = built(num_encoder_layers=1, num_decoder_layers=1)
    loss_fn = make_loss_fn(model, 0.0)
    heads = importances(loss_fn, params, batches())
    assert len(heads) == 3 * 4
    assert [head.importance for head in heads] == sorted(head.importance for head in heads)
    slopes: dict[tuple, list[float]] = {}
    for head in sorted(heads, key=lambda head: (head.path, head.number)):

        def loss(factor, batch, head=head):
            changed = jax.tree.map(lambda leaf: leaf, params)
            attention = changed
            for key in head.path:
                attention = attention[key]
            kernel = attention["output"]["kernel"]
            attention["output"]["kernel"] = kernel.at[head.number].multiply(factor)
            return loss_fn(changed, batch, None)[0]

        slope = jax.jit(jax.grad(loss))
        slopes.setdefault(head.path, []).append(
            np.mean([abs(float(slope(1.0, batch))) for batch in batches()])
        )
    for head in heads:
        of_attention = np.array(slopes[head.path])
        expected = of_attention[head.number] / np.linalg.norm(of_attention)
        assert head.importance == pytest.approx(expected, rel=1e-3)


def test_a_head_that_is_taken_away_says_nothing_and_the_others_stay():
    model, params = built()
    head = importances(make_loss_fn(model, 0.0), params, batches())[0]
    pruned = without(params, [head])
    differs = jax.tree.map(lambda a, b: int((a != b).sum()), params, pruned)
    assert sum(jax.tree.leaves(differs)) == 3 * 12  # d_v d_model
    before, after = params, pruned
    for key in head.path:
        before, after = before[key], after[key]
    assert np.asarray(before["output"]["kernel"][head.number]).any()
    assert not after["output"]["kernel"][head.number].any()


def _write_corpus(directory, text):
    for stem in ("train", "dev", "test"):
        for language in ("en", "de"):
            (directory / f"{stem}.{language}").write_text(text * 8)


def _train(directory):
    """Two steps on a corpus in `directory`; the run is in its subdirectory w."""
    _write_corpus(directory, "the dog sees a cat\na cat sleeps\n")
    changes = {
        "data.source": "text",
        "data.directory": str(directory),
        "data.vocabulary_size": 26,
        "data.num_buckets": 1,
        "training.steps": 2,
        "training.warmup_steps": 1,
        "training.checkpoint_every_steps": 2,
    }
    train(smallest(directory / "cache", **changes), directory / "w")


@pytest.mark.slow
def test_heads_are_taken_away_on_the_corpus_of_training_alone(tmp_path):
    _train(tmp_path)
    heading, whole, none = table(tmp_path / "w", [0, 1], "dev").splitlines()
    assert heading.endswith("of dev, 6 heads")
    assert (whole.split()[:2], none.split()[:2]) == (["0%", "0"], ["100%", "6"])
    with pytest.raises(ValueError, match="split 'valid' is none of train, dev, test"):
        table(tmp_path / "w", [0], "valid")
    _write_corpus(tmp_path, "the cat sees a dog\na dog walks quickly\n")
    with pytest.raises(ValueError, match=r"now gives the vocabulary \w+, but .* was trained"):
        table(tmp_path / "w", [0, 1], "dev")


def test_the_least_important_heads_go_first_and_the_rest_is_scored(tmp_path, monkeypatch):
    _train(tmp_path)
    taken, without = [], pruning.without

    def noted(params, heads):
        taken.append([head.importance for head in heads])
        return without(params, heads)

    monkeypatch.setattr(pruning, "without", noted)
    _, whole, _, none = table(tmp_path / "w", [0, 0.5, 1], "dev").splitlines()
    assert taken == [[], sorted(taken[2])[:3], taken[2]]
    assert whole.split()[2] != none.split()[2]  # perplexity


def test_gradients_are_told_as_shares_of_that_at_distance_0(monkeypatch):
    trained = types.SimpleNamespace(
        model=make_model(small()),
        params=None,
        vocabulary=types.SimpleNamespace(size=100),
    )
    monkeypatch.setattr("t2t_jax.runs.workdir.load_trained", lambda path: trained)
    monkeypatch.setattr(gradient_reach, "gradient_norms", lambda *_: np.arange(130, 0, -2.0))
    heading, line = gradient_reach.table([Path("gru/seed-0")]).splitlines()
    assert heading.split() == ["distance", *"0 1 2 4 8 16 32 64".split()]
    shares = "1 0.98 0.97 0.94 0.88 0.75 0.51 0.015"
    assert line.split() == ["gru/seed-0", *shares.split()]
