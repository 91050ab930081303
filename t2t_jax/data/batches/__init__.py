"""In: a prepared split and a seed. Out: batch i, on every host its own rows, and onto devices.

Top floor of the data room: knows prepared token ids, and no text.
"""
