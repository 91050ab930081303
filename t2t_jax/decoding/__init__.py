"""Params and source sentences to translations (paper section 6.1)."""
