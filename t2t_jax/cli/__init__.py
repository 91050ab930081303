"""The verbs of `t2t-jax`: flags and printing only. Floor 6."""
