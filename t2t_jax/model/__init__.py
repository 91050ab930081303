"""The Transformer, a file for each subsection of the paper's section 3.

In: a model's config, token ids. Out: logits. Floor 1, beside data.
"""
