"""Measurements on trained models.

In: directories of trained runs. Out: a printed table each.
Level 3 of experiments, beside report and launchers.
"""
