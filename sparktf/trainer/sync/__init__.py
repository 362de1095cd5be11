"""Synchronous training: every worker takes part in every update, and all hold the same weights.

May import the rooms around it in trainer. Never asks which role its node has.
"""
