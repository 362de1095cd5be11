"""What Spark can tell and do about a source: DataFrames, RDDs, scans and their filters, and which way rows come.

May import Spark's room and below. Never knows of an attempt or a node.
"""
