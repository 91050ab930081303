"""In: sentences. Out: a SentencePiece model learned from them; token ids, and back to sentences.

Lowest level of the data package, beside its config: knows no corpus.
"""
