"""In: the section `config.data` and the text it names. Out: numpy batches of token ids, by number.

Floor 1, beside model. In it, from the top: batches, prepare, corpora, vocabulary, config.
"""
