"""Parallel sentences in, numpy batches of token ids out."""
