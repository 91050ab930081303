"""Speed measurements, also compared with other libraries.

In: a config, or sizes. Out: seconds, rates or bytes, printed; from the suite, `python -m
experiments.benchmarks`, also a record.
Level 5 of experiments: only speedrun imports it.
"""
