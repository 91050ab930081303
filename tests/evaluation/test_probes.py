"""Probes answered by models with known answers."""

import numpy as np
import pytest

from t2t_jax.data.corpora.grammar import probes
from t2t_jax.evaluation.probes import PROBE_LANGUAGES, probe_scores

RIGHT = {
    (probe.source, probe.right) for kind in PROBE_LANGUAGES for probe in probes(kind, 4, seed=0)
}


def _oracle(sources, targets):
    return np.array([0.0 if pair in RIGHT else -1.0 for pair in zip(sources, targets, strict=True)])


def test_only_probes_of_the_models_direction_are_asked():
    assert probe_scores(("en", "de"), 4, _oracle) == {"order": 1.0, "pronoun": 1.0}
    assert probe_scores(("de", "en"), 4, _oracle) == {"sense": 1.0}


def test_every_kind_has_the_languages_of_its_probes():
    for kind, languages in PROBE_LANGUAGES.items():
        [probe] = probes(kind, 1, seed=0)
        assert (probe.source_language, probe.target_language) == languages


def test_who_is_always_wrong_has_nothing_and_who_cannot_tell_a_half():
    def wrong(sources, targets):
        return -_oracle(sources, targets)

    def constant(sources, targets):
        return np.full(len(sources), -3.0)

    assert probe_scores(("de", "en"), 4, wrong) == {"sense": 0.0}
    assert probe_scores(("en", "de"), 4, constant) == {"order": 0.5, "pronoun": 0.5}


def test_each_kind_is_counted_by_itself():
    pronouns = {probe.source for probe in probes("pronoun", 2, seed=0)}

    def knows_pronouns_alone(sources, targets):
        known = np.array([source in pronouns for source in sources])
        return np.where(known, _oracle(sources, targets), 0.0)

    assert probe_scores(("en", "de"), 4, knows_pronouns_alone) == {
        "order": 0.5,
        "pronoun": (2 + 2 / 2) / 4,
    }


def test_no_numbers_are_never_right():
    def broken(sources, targets):
        return np.full(len(sources), np.nan)

    assert probe_scores(("de", "en"), 4, broken) == {"sense": 0.0}


@pytest.mark.parametrize(("languages", "number"), [(("en", "de"), 0), (("en", "fr"), 4)])
def test_without_probes_the_model_is_not_asked(languages, number):
    assert probe_scores(languages, number, lambda sources, targets: 1 / 0) == {}
