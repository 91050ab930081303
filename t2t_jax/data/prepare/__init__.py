"""In: a corpus. Out: its vocabulary and its token ids, in memory-mapped files.

Third level of the data package: knows corpora and vocabularies, not batches.
"""
