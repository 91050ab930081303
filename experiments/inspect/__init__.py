"""Measurements on trained models.

In: directories of trained runs. Out: a printed table for each measurement.
Level 3 of experiments, beside report and launchers.
"""
