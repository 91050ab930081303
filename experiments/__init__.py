"""Named changes to a base config -> training runs -> one JSON record each -> tables and figures.

Five floors; imports go down only: 1 tables, 2 run, 3 report, launchers and inspect (which do not
know each other), 4 sweep, 5 quickstart and benchmarks.
"""
