"""Summaries -> figures.

In: `TableSummary`s, and the files of their runs. Out: matplotlib figures, as PNG files or in HTML.
On level 3 of experiments, above the summaries.
"""
