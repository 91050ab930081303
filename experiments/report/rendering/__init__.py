"""Summaries -> text: Markdown, CSV, LaTeX, HTML."""
