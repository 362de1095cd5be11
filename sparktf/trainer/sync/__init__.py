"""Synchronous training: every worker takes part in every update, and all hold the same weights.

May import what a node is made of (`node`) and the model. Never asks which role its node has.
"""
