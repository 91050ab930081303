"""Ways to run many `python -m experiments.run` commands; each yields `Event`s as they happen."""
