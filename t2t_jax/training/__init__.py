"""How a model learns (paper section 5).

In: a model, batches by number. Out: checkpoints and metrics. Level 2, beside decoding: above model
and data.
"""
