"""The process of a node, `python -m sparktf.trainer` or a fork of the nursery, and its work.

May import the rooms below it: how a gang trains (`sync`), the parts of a node (`node`), the user's model (`model`);
and the feed, the storage and below. Nobody imports this package. Never imports pyspark.
"""
