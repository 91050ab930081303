"""Where runs are done: on this machine, by Ray, by SLURM, on Cloud TPU.

In: directories with a run.json. Out: an `Event` whenever one of the runs starts or ends.
Floor 3 of experiments, on run, beside report and inspect.
"""
