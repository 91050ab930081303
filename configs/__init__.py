"""What to run: complete, locked configs with one section per package of t2t_jax.

In: nothing. Out: a ConfigDict. Top level, beside experiments: nothing in t2t_jax imports it.
"""
