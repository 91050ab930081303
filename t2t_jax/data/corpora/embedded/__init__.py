"""The parts of the embedded corpus; import them through `t2t_jax.data.corpora.grammar`."""
