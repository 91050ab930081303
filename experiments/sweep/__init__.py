"""Rows x seeds of a table: runs what is unfinished.

In: a table, a base config, a launcher. Out: W/TABLE/ROW/seed-N with a record.json each, the report.
Level 4 of experiments, above tables, run, launchers and report.
"""
