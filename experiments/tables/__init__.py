"""What is compared: one file per table.

In: a base config. Out: its rows, a complete config each, and why any were left out.
Level 1 of experiments: imports no other part of it.
"""
