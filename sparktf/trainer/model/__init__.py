"""The user's model: how it is loaded and checked, what it is given, how it is evaluated, and how it leaves a run.

May import the feed's columns, the wire's messages and below. Never speaks to the driver or to another node.
"""
