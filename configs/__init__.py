"""What to run: complete, locked configs, a section per package of t2t_jax."""
