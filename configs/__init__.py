"""What to run: complete, locked configs, a section per package of t2t_jax.

In: nothing. Out: a ConfigDict. Top floor, beside experiments: nothing of t2t_jax imports it.
"""
