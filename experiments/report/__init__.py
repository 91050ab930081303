"""Records -> tables, sentences and figures.

In: a workdir with runs in whatever state. Out: report.md, .csv, .tex, .html and PNG files.
Floor 3 of experiments, on run, beside launchers and inspect.
"""
