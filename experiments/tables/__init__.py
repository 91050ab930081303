"""What is compared: a file a table.

In: a base config. Out: its rows, a complete config each, and the reasons of those left out.
Floor 1 of experiments: knows no other room of it.
"""
