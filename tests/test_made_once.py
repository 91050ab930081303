"""Equal arguments give the same function, for which JAX compiles once."""

import jax
import pytest

from configs import tiny
from t2t_jax.compilation import ByRow, compile_sums, summed_over
from t2t_jax.decoding import classify, stages
from t2t_jax.decoding.generate import make_generate
from t2t_jax.decoding.sampling import Sampling
from t2t_jax.decoding.translate import TranslationDecoder, make_decode
from t2t_jax.devices import make_devices
from t2t_jax.evaluation import likelihood
from t2t_jax.explain import heard
from t2t_jax.model import families
from t2t_jax.model.families import make_model
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.steps import make_first_state, optimizer_on, train_step_of
from t2t_jax.training.loss import make_loss_fn
from t2t_jax.training.step import make_eval_step
from tests.decoding.configs import beam_of_3
from tests.model.configs import model_and_variables, small


def _train_step(num_devices, **changes):
    config = tiny.get_config()
    config.update_from_flattened_dict(changes)
    sections, devices = read_sections(config), make_devices(num_devices)
    model, optimizer = make_model(sections.model), optimizer_on(devices, sections)
    return train_step_of(sections, devices, model, optimizer)


def _first_state(d_model):
    sections = read_sections(tiny.get_config())
    model = make_model(small(d_model=d_model))
    return make_first_state(model, optimizer_on(make_devices(1), sections), False)


def _generate(top_n):
    options = {"max_new_tokens": 3, "sampling": Sampling(), "vocabulary_size": 11}
    return make_generate(make_model(small(family="decoder_only")), top_n=top_n, **options)


def _program_by_row(num_devices):
    decode = make_decode(make_model(small()), beam_of_3(), 11)
    return ByRow(make_devices(num_devices), decode)._program


def _of_model(maker, **changes):
    return lambda d_model: maker(make_model(small(d_model=d_model, **changes)))


@pytest.mark.parametrize(
    ("make", "one", "another"),
    [
        (lambda smoothing: make_loss_fn(make_model(small()), smoothing), 0.1, 0.2),
        (lambda smoothing: make_eval_step(make_loss_fn(make_model(small()), smoothing)), 0.1, 0.2),
        (_train_step, 1, 2),
        (lambda rate: _train_step(1, **{"training.peak_learning_rate": rate}), 0.1, 0.2),
        (_first_state, 12, 18),
        (lambda number: summed_over(make_devices(number)), 1, 2),
        (lambda number: compile_sums(make_devices(number), max), 1, 2),
        (_program_by_row, 1, 2),
        (lambda size: make_decode(make_model(small()), beam_of_3(), size), 11, 12),
        (
            lambda size: stages._compiled(
                TranslationDecoder(make_model(small()), beam_of_3(), size)
            ),
            11,
            12,
        ),
        (_generate, 2, 3),
        (_of_model(classify._make_classify, family="encoder_only", pooling="mean"), 12, 18),
        (_of_model(likelihood._log_likelihood), 12, 18),
        (_of_model(heard._compiled), 12, 18),
        (_of_model(families._initialised), 12, 18),
    ],
)
def test_equal_arguments_give_the_same_function_and_others_another(make, one, another):
    made = make(one)
    assert make(one) is made
    assert make(another) is not made
    assert make(one) is made


@pytest.mark.slow
def test_code_replaced_meanwhile_takes_effect_when_caches_are_cleared(monkeypatch):
    model, variables = model_and_variables()
    compiled = heard._compiled(model)
    calls = []
    capture = heard.capture_modules

    def replaced(*arguments, **options):
        calls.append(arguments)
        return capture(*arguments, **options)

    ids = [1, 2, 3]
    heard.hear(model, variables["params"], ids, ids)
    monkeypatch.setattr(heard, "capture_modules", replaced)
    heard.hear(model, variables["params"], ids, ids)
    assert heard._compiled(model) is compiled and not calls
    jax.clear_caches()
    heard.hear(model, variables["params"], ids, ids)
    assert len(calls) == 1
