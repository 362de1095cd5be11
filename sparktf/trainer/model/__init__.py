"""The user's model: loading, checks, batches, evaluation and export.

May import the feed's columns, the wire's messages and below. Never speaks to the driver or to another node.
"""
