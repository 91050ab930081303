"""Summaries -> figures.

In: `TableSummary`s, and what their runs left. Out: matplotlib figures, as PNG files or inside HTML.
On floor 3 of experiments, upon the summaries.
"""
