"""The Transformer of "Attention Is All You Need", and what each part of it is worth."""
