"""How fast it is, and beside whom.

In: a config, or sizes. Out: seconds, rates or bytes, printed; of the suite, `python -m
experiments.benchmarks`, a record as well.
Floor 5 of experiments: speedrun alone imports it.
"""
