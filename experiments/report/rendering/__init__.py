"""Summaries -> text.

In: `TableSummary`s. Out: Markdown, CSV, LaTeX, or an HTML page with the figures in it.
On level 3 of experiments, above the summaries and the figures.
"""
