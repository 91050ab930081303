"""Shows one sentence on its way through a model: as a page, as figures, as numbers.

In: a loaded model, a sentence. Out: a document of tokens and arrays, and drawings of it. Level 5:
above runs, below the command line.
"""
