"""Rows x seeds of a table: whatever is not finished.

In: a table, a base config, a launcher. Out: W/TABLE/ROW/seed-N with a record.json each, the report.
Floor 4 of experiments, on tables, run, launchers and report.
"""
