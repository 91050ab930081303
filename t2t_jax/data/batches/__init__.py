"""In: a prepared split and a seed. Out: batch i, each host's own rows of it, placed on devices.

Top level of the data package: knows prepared token ids, not text.
"""
