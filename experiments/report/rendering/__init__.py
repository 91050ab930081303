"""Summaries -> text.

In: `TableSummary`s. Out: Markdown, CSV, LaTeX, or an HTML page with the figures in it.
On floor 3 of experiments, upon the summaries and the figures.
"""
