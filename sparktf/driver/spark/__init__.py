"""The Spark application as the place where agents run: its session, executors, slots, feeders and log.

May import the gang and below. Never reads training data.
"""
