"""A record to beat: seconds from the command to a score.

In: a config, a target, seeds. Out: W/record.json; from the kept records, docs/SPEEDRUN.md.
Level 6 of experiments, above benchmarks, launchers and run: nothing imports it.
"""
