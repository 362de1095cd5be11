"""Changes that other drivers and readers see whole or not at all: ownership, checkpoints, versions, partitions.

May import the contract of a storage, and works on each of them. Never knows what the files mean to a run.
"""
