"""One row with one seed.

In: a directory with a run.json. Out: the trained model in it, its scores and a record.json.
Level 2 of experiments, above tables.
"""
