"""Code that runs inside Spark tasks: the node agent, which starts trainers, and the feeder.

May import the feed, the storage and below. Never imports TensorFlow, nor pyspark but its tasks' side.
"""
