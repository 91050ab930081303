"""How fast it is, and beside whom.

In: a config, or sizes. Out: seconds, rates or bytes, printed.
Floor 5 of experiments: nothing imports it.
"""
