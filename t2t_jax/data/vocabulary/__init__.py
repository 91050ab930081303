"""In: sentences. Out: a SentencePiece model learned from them, token ids, and sentences again.

Ground floor of the data room, beside its config: knows no corpus.
"""
