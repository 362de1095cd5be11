"""The node's own process, `python -m sparktf.trainer` or a fork of the nursery, and what a node does in it.

May import the rooms below it: how a gang trains (`sync`), what a node is made of (`node`), the user's model (`model`);
and the feed, the storage and below. Nobody imports this package. Never imports pyspark.
"""
