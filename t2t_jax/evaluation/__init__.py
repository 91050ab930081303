"""Scores and statistical tests.

In: translations and references, or losses. Out: scores, intervals, tests. Level 3, beside interop:
above decoding.
"""
