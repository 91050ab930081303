"""The Transformer, one file per subsection of the paper's section 3.

In: a model's config, token ids. Out: logits. Level 1, beside data.
"""
