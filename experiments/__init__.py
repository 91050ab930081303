"""Named changes to a base config -> training runs -> one JSON record each -> tables and figures.

Levels; imports only go down: 1 tables, 2 run, 3 report, launchers and inspect (independent of each
other), 4 sweep, 5 benchmarks, 6 quickstart and speedrun.
"""
