"""Summaries and what their runs left -> figures."""
