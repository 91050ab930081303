"""In: the section `config.data`. Out: examples, as strings, of text files, TFDS or our own grammar.

Second floor of the data room: knows the vocabulary's sign for a space, and no token id.
"""
