"""The node's own process: `python -m sparktf.trainer`. Nobody imports this package.

May import the feed, the storage and below. Never imports pyspark.
"""
