"""Checkpoints of weights on several parameter servers: each writes and reads its own, the coordinator the index.

May import what a node is made of (`node`) and the model. Never sends an update.
"""
