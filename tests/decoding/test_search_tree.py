"""The tree of a search holds what the search returned, and what it kept on the way."""

import jax
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import END_ID
from t2t_jax.decoding.length_penalty import length_penalty
from t2t_jax.decoding.search_tree import search_tree
from t2t_jax.decoding.translate import TranslationDecoder, make_decode
from tests.decoding.configs import beam_of_3
from tests.model.configs import model_and_variables, some_ids

S, SIZE = 5, 11


def _tree_and_found(seed, family="encoder_decoder", **changes):
    model, variables = model_and_variables(family=family)
    config = beam_of_3(**changes)
    source = some_ids(1, S, seed)
    found = jax.jit(make_decode(model, config, SIZE))(variables["params"], source)
    decoder = TranslationDecoder(model, config, SIZE)
    return search_tree(decoder, variables["params"], source[0].tolist()), found, config


@pytest.mark.parametrize("family", ["encoder_decoder", "recurrent"])
@pytest.mark.parametrize("changes", [{}, {"n_best": 1}, {"beam_size": 1, "n_best": 1}], ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_its_best_leaf_is_what_the_search_gives_back(seed, changes, family):
    tree, found, config = _tree_and_found(seed, family, **changes)
    ids = [token for token in np.asarray(found.ids)[0, 0].tolist() if token]
    assert tree.best_ids == ids
    np.testing.assert_allclose(tree.nodes[tree.best].score, found.scores[0, 0], rtol=1e-5)
    assert tree.beam_size == config.beam_size


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_all_hypotheses_that_are_given_back_are_its_leaves(seed):
    tree, found, _ = _tree_and_found(seed)
    scores = {
        tuple(tree.nodes[place].id for place in tree.path(leaf)): node.score
        for leaf, node in enumerate(tree.nodes)
        if node.score is not None
    }
    for ids, score in zip(np.asarray(found.ids)[0].tolist(), found.scores[0], strict=True):
        np.testing.assert_allclose(scores[tuple(token for token in ids if token)], score, rtol=1e-5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_leaf_says_what_ended_it_and_no_more_than_the_beam_are_kept(seed):
    tree, _, config = _tree_and_found(seed)
    parents = {node.parent for node in tree.nodes}
    for place, node in enumerate(tree.nodes):
        assert (node.ending is None) == (place in parents)
        assert (node.ending in ("end", "limit")) == (node.id == END_ID) == (node.score is not None)
        assert node.parent < place
        if node.parent >= 0:
            assert node.log_prob <= tree.nodes[node.parent].log_prob
    depths = [len(tree.path(place)) for place, node in enumerate(tree.nodes) if node.id != END_ID]
    assert max(np.bincount(depths)) <= config.beam_size


@pytest.mark.parametrize("max_tokens", [0, 2])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_ended_a_hypothesis_is_true_of_it(seed, max_tokens):
    tree, _, config = _tree_and_found(seed, max_tokens=max_tokens)
    limit = max_tokens or S + config.max_extra_tokens
    finished = [node.score for node in tree.nodes if node.score is not None]
    lengths = [len(tree.path(place)) for place in range(len(tree.nodes))]
    seen = set()
    for node, length in zip(tree.nodes, lengths, strict=True):
        seen.add(node.ending)
        match node.ending:
            case "end":
                assert length < limit
            case "limit":
                assert length == limit
            case "cannot_win":  # even if all that follows were certain
                most = length_penalty(limit, config.length_penalty, config.length_penalty_formula)
                assert node.log_prob / float(most) <= max(finished)
            case "crowded_out":
                assert lengths.count(length + 1) >= config.beam_size
    assert ({"limit"} if max_tokens else {"end", "crowded_out"}) <= seen


def test_a_model_of_no_numbers_is_told():
    model, variables = model_and_variables()
    params = jax.tree.map(lambda leaf: leaf * np.nan, variables["params"])
    with pytest.raises(ValueError, match="it diverged in training"):
        search_tree(TranslationDecoder(model, beam_of_3(), SIZE), params, [5, 6, END_ID])
