"""How good it is.

In: translations and references, or losses. Out: scores, intervals, tests. Floor 3, beside interop:
above decoding.
"""
