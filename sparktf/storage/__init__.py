"""File systems: their contract, and the local one. In folders: HDFS, and what is changed as one.

May import the wire's messages and below. Never knows Spark, TensorFlow or an attempt's state.
"""
