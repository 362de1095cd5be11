"""Checkpoints of weights on several parameter servers: each writes and reads its own, the coordinator the index.

May import the parts of a node (`node`) and the model. Never sends an update.
"""
