"""Weights in and out: models of other libraries become ours, ours become theirs.

Needs the `interop` extra.
"""
