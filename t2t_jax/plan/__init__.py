"""Predicts a run on hardware you do not have: whether it fits, hours, dollars.

In: a config, and hardware as it is rented. Out: facts about the programs that would run, compiled
by the TPU's own compiler, and predictions from them. It trains nothing. Level 5, above runs.
"""
