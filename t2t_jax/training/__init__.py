"""Batches and a model to checkpoints (paper section 5)."""
