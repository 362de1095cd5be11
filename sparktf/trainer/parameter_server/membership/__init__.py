"""Membership: workers join, are lost and are replaced, without a new TensorFlow cluster.

May import what a node is made of (`node`) and the model. Never knows what an update is.
"""
