"""Imports other libraries' models, and exports ours to them.

In or out: a directory of Hugging Face, Marian or CTranslate2. Level 3, beside evaluation: above
training. Needs the `interop` extra.
"""
