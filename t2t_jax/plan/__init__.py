"""What a run will take on hardware that is not here: whether it fits, hours, dollars.

In: a config, and names of hardware as people rent it. Out: facts of the very programs, compiled by
the TPU's own compiler, and what follows from them. It trains nothing; of the floors below it needs
runs.
"""
