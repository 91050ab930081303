"""The verbs of `t2t-jax`: flags and printing only.

In: a command line. Out: printed lines, an exit code. Level 6, the top one of t2t_jax.
"""
