"""In: the section `config.data`. Out: examples, as strings, from text files, TFDS or our grammar.

Second level of the data package: knows the vocabulary's sign for a space, but no token ids.
"""
