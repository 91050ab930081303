"""One row with one seed.

In: a directory with a run.json. Out: the trained model in it, its scores and a record.json.
Floor 2 of experiments, on tables.
"""
