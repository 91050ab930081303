"""What a run's directory holds, and what can be done with it: train, score, translate.

In: a config, once, as `Sections`; a directory. Out: checkpoints, metrics, scores. Level 4: above
training, decoding, evaluation and interop, below the command line.
"""
