"""In: the section `config.data`. Out: examples, as strings, of text files, TFDS or our own grammar.

Second level of the data package: knows the vocabulary's sign for a space, but no token ids.
"""
