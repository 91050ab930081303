"""Greedy search, beam search and sampling (paper section 6.1).

In: a model, its parameters, source sentences. Out: translations. Level 2, beside training: above
model and data.
"""
