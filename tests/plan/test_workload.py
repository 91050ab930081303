"""Shapes of batches: from the prepared corpus if there is one, else from the config's budget."""

import pytest

from t2t_jax.plan.workload import widest_decode, workload
from t2t_jax.runs.prepare import prepare
from tests.plan.stand_in import sections
from tests.runs.configs import smallest


def test_without_a_corpus_the_budget_holds_as_many_rows_as_fit():
    budget = {"data.source_tokens_per_batch": 4_000, "data.target_tokens_per_batch": 4_100}
    run = sections(**{"data.max_length": 64}, **budget)
    found = workload(run)
    assert "no prepared corpus" in found.words
    assert [shape[1:] for shape in found.shapes] == [(32, 32), (64, 64)]
    for rows, source, target in found.shapes:
        assert rows % 8 == 0
        assert rows * source <= run.data.source_tokens_per_batch < (rows + 8) * source
        assert rows * target <= run.data.target_tokens_per_batch
    assert found.shares == (1.0, 0.0)
    assert found.commonest == found.shapes[0]
    assert found.largest(run.model) == found.shapes[1]


def test_lengths_are_rounded_and_splits_counted_as_in_a_run():
    run = sections(**{"data.max_length": 100, "data.length_multiple": 48})
    assert [shape[1:] for shape in workload(run).shapes] == [(48, 48), (144, 144)]
    with_dev = sections(**{"evaluation.bleu_on_dev": True})
    assert (workload(run).num_scored, workload(with_dev).num_scored) == (3_003, 6_003)
    with_long = sections(**{"evaluation.bleu_on_long": True})
    assert workload(with_long).num_scored == 4_003


def test_a_packed_run_has_one_shape():
    found = workload(sections(**{"data.batching": "packed", "data.packed_length": 64}))
    assert found.is_packed and [shape[1:] for shape in found.shapes] == [(64, 64)]
    budgets = {f"data.{side}_tokens_per_batch": 2_048 for side in ("source", "target")}
    packed = {"data.batching": "packed", "data.packed_length": 140, "data.length_multiple": 8}
    assert workload(sections(**packed, **budgets)).shapes == ((14, 144, 144),)


def test_a_language_model_has_no_budget_of_a_source():
    changes = {
        "data.task": "language_modelling",
        "model.family": "decoder_only",
        "data.target_tokens_per_batch": 1_100,  # 8 rows at a time would leave some of them empty
    }
    tiny = {"data.source_tokens_per_batch": 1}
    assert workload(sections(**changes, **tiny)).shapes == workload(sections(**changes)).shapes


def test_a_budget_without_room_for_a_sentence_is_refused():
    with pytest.raises(ValueError, match="hold no sentence of 4096 tokens"):
        workload(sections(**{"data.max_length": 4_096}))


def test_with_a_prepared_corpus_its_own_batches_are_taken(tmp_path):
    run = smallest(tmp_path)
    assert "no prepared corpus" in workload(run).words
    prepared = prepare(run)
    found = workload(run)
    assert prepared.directory.name in found.words
    assert sum(found.shares) == pytest.approx(1)
    assert found.num_scored == prepared.splits["test"].num_pairs  # evaluation.bleu_on_dev is off


def test_only_translation_has_a_search():
    assert widest_decode(sections()) is not None
    changes = {"data.task": "language_modelling", "model.family": "decoder_only"}
    run = sections(**changes)
    assert widest_decode(run) is None
    assert all(shape.source_length == 0 for shape in workload(run).shapes)
