"""The verbs take the runs of tests/runs."""

from tests.runs.conftest import cache, few_sentences_to_evaluate, trained

__all__ = ["cache", "few_sentences_to_evaluate", "trained"]
