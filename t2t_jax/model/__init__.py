"""Token ids to logits: the Transformer, a file for each subsection of the paper's section 3."""
