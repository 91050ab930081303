"""What is measured of models after training.

In: directories of trained runs. Out: a printed table each.
Floor 3 of experiments, beside report and launchers.
"""
