"""A record to beat: seconds from the command to a score.

In: a config, a target, seeds. Out: W/record.json; of the records that are kept, docs/SPEEDRUN.md.
Floor 6 of experiments, on benchmarks, launchers and run: nothing imports it.
"""
