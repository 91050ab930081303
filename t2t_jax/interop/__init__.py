"""Weights in and out: models of other libraries become ours, ours become theirs.

In, or out: a directory of Hugging Face, Marian or CTranslate2. Floor 3, beside evaluation: above
training. Needs the `interop` extra.
"""
