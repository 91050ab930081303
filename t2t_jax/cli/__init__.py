"""The verbs of `t2t-jax`: flags and wiring only."""
