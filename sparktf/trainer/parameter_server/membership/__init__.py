"""Membership: workers join, are lost and are replaced, without a new TensorFlow cluster.

May import the parts of a node (`node`) and the model. Never knows what an update is.
"""
