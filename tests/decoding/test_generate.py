import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID, learn_vocabulary
from t2t_jax.decoding.continuation import Continuations, Prompts, continue_prompts
from t2t_jax.decoding.generate import Generator
from t2t_jax.decoding.sampling import Sampling
from tests.decoding.toy import make_toy, tokens
from tests.model.configs import model_and_variables

PROMPTS = ["a", "the dog sees", "", "cat", "no", "a bed in", "a", "tea"]
MAX_NEW = 9
WARM = Sampling(temperature=1.5, top_k=12, top_p=0.95)
HOT = Sampling(temperature=50.0)
# Eight rows of prompts padded to 16 tokens: one shape, hence one compilation, for most tests.
TOKENS = 8 * (16 + MAX_NEW)


@functools.cache
def _vocabulary():
    return learn_vocabulary(PROMPTS, "char", 40, 1.0)


@functools.cache
def _model_and_params(positions="sinusoidal"):
    # More rows than pieces, so that some logits belong to no piece.
    model, variables = model_and_variables(
        family="decoder_only",
        vocabulary_rows=23,
        num_decoder_layers=1,
        positions=positions,
        max_positions=32,
    )
    return model, variables["params"]


@functools.cache
def _generator(positions="sinusoidal", compile=jax.jit, **options):
    model, params = _model_and_params(positions)
    defaults = {"max_new_tokens": MAX_NEW, "sampling": Sampling(), "top_n": 3}
    options = defaults | {"tokens_per_batch": TOKENS} | options
    return Generator(model, params, _vocabulary(), compile=compile, **options)


def _ids(generation):
    return [token.chosen.id for token in generation.tokens]


def _full_logits(prompt, new_ids, start=(START_ID,)):
    """What the model says after the prompt and after each new token, with no cache."""
    _, params = _model_and_params()
    (prompt_ids,) = _vocabulary().encode([prompt])
    read = [*start, *prompt_ids, *new_ids[:-1]]
    ids = np.full((1, 32), PAD_ID, np.int32)
    ids[0, : len(read)] = read
    logits = np.array(_forward()(params, ids))
    return logits[0, len(read) - len(new_ids) : len(read)]


@functools.cache
def _forward():
    model, _ = _model_and_params()
    return jax.jit(lambda params, ids: model.apply({"params": params}, ids, deterministic=True))


def _may_follow():
    size = _vocabulary().size
    return [i for i in range(size) if i not in (PAD_ID, START_ID)]


def test_greedy_text_is_the_argmax_of_repeated_full_forward_passes():
    size, ends = _vocabulary().size, 0
    for prompt, (generation,) in zip(PROMPTS, _generator()(PROMPTS), strict=True):
        ids = _ids(generation)
        logits = _full_logits(prompt, ids)[:, :size]
        logits[:, [PAD_ID, START_ID]] = -np.inf
        assert ids == logits.argmax(axis=-1).tolist()
        assert (END_ID in ids) == generation.has_ended == (ids[-1] == END_ID)
        assert generation.has_ended or len(ids) == MAX_NEW
        ends += generation.has_ended
    assert 0 < ends < len(PROMPTS)  # both ways to stop were seen


@pytest.mark.parametrize("sampling", [Sampling(), WARM])
def test_the_numbers_are_those_of_the_undisturbed_model(sampling):
    for prompt, (generation,) in zip(PROMPTS, _generator(sampling=sampling)(PROMPTS), strict=True):
        logits = _full_logits(prompt, _ids(generation))
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        for token, logit, probability in zip(generation.tokens, logits, probabilities, strict=True):
            best = sorted(_may_follow(), key=lambda i: -logit[i])[:3]
            assert [candidate.id for candidate in token.best] == best
            for candidate in (token.chosen, *token.best):
                assert candidate.piece == _vocabulary().piece(candidate.id)
                np.testing.assert_allclose(candidate.logit, logit[candidate.id], atol=1e-4)
                np.testing.assert_allclose(
                    candidate.probability, probability[candidate.id], rtol=1e-3
                )


def test_a_text_is_the_prompt_and_its_continuation():
    for prompt, (generation,) in zip(PROMPTS, _generator()(PROMPTS), strict=True):
        (prompt_ids,) = _vocabulary().encode([prompt])
        assert generation.text == _vocabulary().decode([prompt_ids + _ids(generation)])[0]
        assert generation.text.startswith(prompt)


def test_only_pieces_that_may_follow_are_drawn():
    model, _ = _model_and_params()
    assert model.config.vocabulary_rows > _vocabulary().size
    generate = _generator(sampling=HOT)
    drawn = {
        i for samples in generate(PROMPTS, num_samples=8) for one in samples for i in _ids(one)
    }
    assert drawn == set(_may_follow())


def test_samples_repeat_by_seed_and_differ_between_seeds_prompts_and_samples():
    generate = _generator(sampling=HOT)
    first = generate(PROMPTS, num_samples=2)
    assert generate(PROMPTS, num_samples=2) == first
    other = generate(PROMPTS, num_samples=2, seed=1)
    assert PROMPTS[0] == PROMPTS[6]
    texts = [one.text for found in (first, other) for place in (0, 6) for one in found[place]]
    assert len(set(texts)) == 8  # two seeds, two places, two samples


@pytest.mark.parametrize("sampling", [Sampling(), WARM])
def test_a_text_does_not_depend_on_the_texts_beside_it(sampling):
    generate = _generator(sampling=sampling)
    together = [_ids(one) for (one,) in generate(PROMPTS)]
    others = [_ids(one) for (one,) in generate(["a", "tea", "tea", "tea", "no"])]
    assert [others[0], others[4]] == [together[0], together[4]]
    assert others[1] != together[1]


def test_a_text_does_not_depend_on_how_the_input_is_cut_into_batches():
    narrow, wide = (_generator(sampling=WARM, tokens_per_batch=n)(PROMPTS) for n in (1, TOKENS))
    assert [_ids(one) for (one,) in narrow] == [_ids(one) for (one,) in wide]


def test_more_samples_leave_the_first_as_they_were():
    few, more = (_generator(sampling=WARM)(PROMPTS, num_samples=n) for n in (1, 3))
    for one, three in zip(few, more, strict=True):
        assert _ids(one[0]) == _ids(three[0])


def test_batches_cut_over_devices_give_what_one_gives():
    rows = jax.sharding.PartitionSpec("data")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))

    def compile(generate):
        specs = jax.sharding.PartitionSpec(), rows
        cut = jax.shard_map(generate, mesh=mesh, in_specs=specs, out_specs=rows, check_vma=False)
        return jax.jit(cut)

    cut = _generator(compile=compile, sampling=WARM, row_multiple=2)(PROMPTS)
    whole = _generator(sampling=WARM)(PROMPTS)
    assert [_ids(one) for (one,) in cut] == [_ids(one) for (one,) in whole]


def test_a_model_without_a_start_token_reads_the_prompt_alone():
    generate = _generator(opens_with_start=False)
    (generation,) = generate(["cat"])[0]
    ids = _ids(generation)
    logits = _full_logits("cat", ids, start=())
    for token, logit in zip(generation.tokens, logits, strict=True):
        np.testing.assert_allclose(token.chosen.logit, logit[token.chosen.id], atol=1e-4)


def test_learned_positions_bound_the_prompt_and_its_continuation():
    generate = _generator("learned")
    # A start token, a space before the first of 22 letters, 8 new tokens that are read: 32.
    (generation,) = generate(["a" * 22])[0]
    assert 1 <= len(generation.tokens) <= MAX_NEW
    sentence = "prompt 2 has 25 tokens and max_new_tokens is 9: 33 positions, .* max_positions=32"
    with pytest.raises(ValueError, match=sentence):
        generate(["a", "a" * 23])
    with pytest.raises(ValueError, match="prompt 7 has 25 tokens"):  # of the whole input
        generate(["a", "a" * 23], first=5)


def test_a_model_that_diverged_is_told():
    model, params = _model_and_params()
    params = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), params)
    generate = Generator(
        model, params, _vocabulary(), max_new_tokens=3, sampling=Sampling(), compile=jax.jit
    )
    with pytest.raises(ValueError, match="it diverged"):
        generate(["cat"])


def test_a_model_that_diverges_in_mid_text_is_told():
    model, params = _model_and_params()
    generate = Generator(
        model, params, _vocabulary(), max_new_tokens=9, sampling=Sampling(), compile=jax.jit
    )
    [[generation]] = generate(["cat"])
    numbers = [token.chosen.logit for token in generation.tokens]
    numbers[2:] = [np.nan] + [0.0] * (len(numbers) - 3)
    found = Continuations(*(np.zeros((12, 1)) for _ in Continuations._fields))
    ids = [token.chosen.id for token in generation.tokens]
    first = 3  # as long as the prompt, less one
    row = found._replace(
        ids=np.array([0] * first + ids[:2] + [PAD_ID] * (len(ids) - 2)),
        logits=np.array([0.0] * first + numbers),
    )
    with pytest.raises(ValueError, match="it diverged in training and can write nothing"):
        generate._generation([START_ID, 5, 6, 7], row)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens=0 must be at least 1"),
        ({"top_n": -1}, "top_n=-1 must be at least 0"),
        ({"top_n": 39}, "top_n=39 must be at most"),
    ],
)
def test_a_wrong_number_is_told(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        _generator(**options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_samples": 0}, "num_samples=0 must be at least 1"),
        ({"seed": -1}, "seed=-1 must be a whole number from 0 to"),
        ({"num_samples": 2}, "num_samples=2 with temperature=0"),
    ],
)
def test_a_wrong_number_of_samples_or_seed_is_told(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        _generator()(["a"], **options)


def test_no_prompts_give_nothing():
    assert _generator()([]) == []


def _toy_prompts(*rows, length=6):
    ids = [[START_ID, *row, *[PAD_ID] * (length - 1 - len(row))] for row in rows]
    keys = jax.random.split(jax.random.key(0), len(rows))
    return Prompts(jnp.asarray(ids), jnp.asarray([1 + len(row) for row in rows]), keys)


def test_every_prompt_is_read_before_anything_is_chosen():
    toy = make_toy(1, num_sentences=4)
    rows = [3, 4, 5], [], [6, 6, 3, 4, 5], [4]
    prompts = _toy_prompts(*rows)._replace(num_tokens=jnp.array([4, 1, 6, 0]))
    written = continue_prompts(
        toy.decode_step, toy.cache(1), prompts, max_new_tokens=5, sampling=Sampling(), top_n=2
    )
    for row, prompt in enumerate(rows[:3]):
        ids = tokens(written.ids[row])
        assert ids[: len(prompt)] == prompt
        for place, token in enumerate(ids):
            log_probs = toy.log_probs(row, tuple(ids[:place]))
            np.testing.assert_allclose(written.probs[row, place], np.exp(log_probs[token]), 1e-4)
            if place >= len(prompt):
                log_probs[[PAD_ID, START_ID]] = -np.inf
                assert token == log_probs.argmax() == written.best_ids[row, place, 0]
        assert ids[-1] == END_ID or len(ids) == len(prompt) + 5
    for leaf in written:  # of a row without a prompt nothing is written
        assert not np.any(leaf[3])


def test_new_tokens_count_in_the_size_of_a_batch():
    shapes = set()

    def spy(generate):
        def spied(params, prompts):
            shapes.add(prompts.ids.shape)
            return jax.jit(generate)(params, prompts)

        return spied

    _generator(compile=spy)(["a"] * 20)
    assert shapes == {(8, 16)}


def test_no_more_tokens_are_shown_than_can_be_written():
    size = _vocabulary().size
    with pytest.raises(ValueError, match=rf"top_n={size - 1} must be at most {size - 2}"):
        _generator(top_n=size - 1)
