"""The parts of the embedded corpus; its door is `t2t_jax.data.corpora.grammar`."""
