"""Where runs are executed: on this machine, by Ray, by SLURM, on Cloud TPU.

In: directories with a run.json. Out: an `Event` whenever a run starts or ends.
Level 3 of experiments, above run, beside report and inspect.
"""
