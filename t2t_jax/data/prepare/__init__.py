"""In: a corpus. Out: its vocabulary and its token ids, in files that are mapped into memory.

Third floor of the data room: knows corpora and vocabularies, and no batch.
"""
