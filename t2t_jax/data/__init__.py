"""In: the section `config.data`, and the text it names. Out: numpy batches of token ids, by number.

Level 1, beside model. Inside, from the top: batches, prepare, corpora, vocabulary, config.
"""
