"""File systems: their contract, and the local one. In subfolders: HDFS, and atomic changes of several files.

May import the wire's messages and below. Never knows Spark, TensorFlow or an attempt's state.
"""
