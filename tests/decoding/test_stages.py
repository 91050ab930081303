from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import END_ID
from t2t_jax.decoding.length_batches import batches_by_length, padded_ids
from t2t_jax.decoding.stages import StagedSearch, _side_by_side
from t2t_jax.decoding.translate import TranslationDecoder, make_decode
from t2t_jax.model.families import make_model
from t2t_jax.model.interface import TranslationModel
from tests.decoding.configs import beam_of_3
from tests.model.configs import random_variables, small

VOCABULARY = 48


class Toy(TranslationModel):
    """A model that writes as many tokens as its source says, each a function of all before it."""

    config = small()

    def bind(self, variables):
        return self

    def encode(self, source_ids, *, deterministic):
        return source_ids

    def start_cache(self, encoded, num_rows, max_length):
        return {"written": jnp.zeros((num_rows, 1, max_length))}

    def decode_step(self, cache, encoded, last_ids, position):
        written = cache["written"].at[:, 0, position].set(last_ids)
        num_rows, room = len(last_ids), written.shape[2]
        wanted = jnp.repeat(encoded[:, 0], num_rows // len(encoded))
        history = written[:, 0] @ jnp.cos(jnp.arange(room)) + wanted
        logits = jnp.sin(history[:, None] * jnp.arange(VOCABULARY)[None])
        end = jnp.where(position + 1 >= wanted, 20.0, -20.0)
        return logits.at[:, END_ID].set(end), {"written": written}


def _decoder(model, beam_size, n_best=1):
    config = beam_of_3(beam_size=beam_size, n_best=n_best, max_extra_tokens=40)
    return TranslationDecoder(model, config, VOCABULARY)


def _model_and_params(family):
    if family == "toy":
        return Toy(), {}
    kind = {"ensemble_size": 2} if family == "ensemble" else {"family": family}
    model = make_model(small(**kind, vocabulary_rows=VOCABULARY, d_ff=16, num_heads=2))
    return model, random_variables(model, seed=1)["params"]


def _sources(num_sentences, longest):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, longest, num_sentences)
    wanted = np.minimum(rng.geometric(0.08, num_sentences) + 2, VOCABULARY - 1)
    return [
        [first, *rng.integers(4, VOCABULARY, length).tolist(), END_ID]
        for first, length in zip(wanted.tolist(), lengths, strict=True)
    ]


def _batches(sources, num_rows):
    lengths = [len(source) for source in sources]
    return list(batches_by_length(lengths, tokens_per_batch=16 * num_rows))


@pytest.mark.parametrize(
    ("family", "beam_size", "num_rows", "side_by_side"),
    [
        ("toy", 1, 64, 1),
        ("toy", 3, 32, 1),
        ("toy", 3, 4, 3),
        ("encoder_decoder", 3, 32, 1),
        ("encoder_decoder", 1, 16, 2),
        ("recurrent", 1, 32, 1),
        ("ensemble", 3, 32, 2),
    ],
)
def test_it_finds_what_each_batch_finds_alone(family, beam_size, num_rows, side_by_side):
    model, params = _model_and_params(family)
    # Of random weights the second best are many, all but equally good.
    decoder = _decoder(model, beam_size, n_best=2 if family == "toy" and beam_size > 1 else 1)
    sources = _sources(200, longest=30)
    batches = _batches(sources, num_rows)
    decode = jax.jit(make_decode(model, decoder.config, VOCABULARY))
    expected = {}
    for batch in batches:
        found = decode(params, padded_ids(batch, sources))
        for place, ids, scores in zip(batch.places, *map(np.asarray, found), strict=False):
            expected[place] = ids, scores
    seen = []
    for places, found in StagedSearch(decoder, params, side_by_side)(batches, sources):
        for place, ids, scores in zip(places, *found, strict=True):
            expected_ids, expected_scores = expected[place]
            length = ids.shape[-1]
            np.testing.assert_array_equal(ids, expected_ids[:, :length])
            assert not expected_ids[:, length:].any()
            np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)
            seen.append(place)
    assert sorted(seen) == list(range(200))


def test_sentences_leave_as_they_end_and_others_take_their_place():
    sources = _sources(600, longest=14)
    batches = _batches(sources, num_rows=64)
    decoder = _decoder(Toy(), beam_size=1)
    staged = StagedSearch(decoder, {})
    num_row_steps = []
    search_on = staged._search_on

    def counted(params, rows, first, stop):
        num_row_steps.append(len(rows.state.limits) * (stop - first))
        return search_on(params, rows=rows, first=first, stop=stop)

    staged._search_on = counted
    lengths = [np.sum(found.ids > 0) for _, found in staged(batches, sources)]
    assert sum(lengths) > 600 * 10
    assert sum(num_row_steps) < 1.5 * sum(lengths) < 0.5 * len(batches) * 64 * 40


def test_what_goes_wrong_side_by_side_is_raised_and_ends_the_others():
    def wrong():
        yield -1
        raise ValueError("no such batch")

    found = _side_by_side([count(), wrong()])
    with pytest.raises(ValueError, match="no such batch"):
        for _ in found:
            pass
    found = _side_by_side([count()])
    assert next(found) == 0
    found.close()  # who listens no more is not waited for


def test_nothing_at_all_is_found_of_no_sentences():
    assert list(StagedSearch(_decoder(Toy(), 1), {}, side_by_side=2)([], [])) == []
