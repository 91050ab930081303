"""One sentence on its way through a model: as a page, as figures, as numbers.

In: a model that is loaded, a sentence. Out: a document of tokens and arrays, and what is drawn of
it. Floor 5: above runs, below the command line.
"""
