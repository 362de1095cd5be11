"""Synchronous training: every worker takes part in every update, and all hold the same weights.

May import the parts of a node (`node`) and the model. Never asks which role its node has.
"""
