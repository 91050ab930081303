"""In: the section `config.data` and the text it names. Out: numpy batches of token ids, by number.

Floor 1; in it batches over prepare over corpora over vocabulary over config, no import runs up.
"""
