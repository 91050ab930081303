"""Records -> tables, sentences and figures.

In: a workdir with runs in any state. Out: report.md, .csv, .tex, .html and PNG files.
Level 3 of experiments, above run, beside launchers and inspect.
"""
