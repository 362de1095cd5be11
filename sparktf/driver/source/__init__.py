"""Sources as Spark sees them: DataFrames, RDDs, scans and their filters, and the choice of who reads them.

May import Spark's room and below. Never knows of an attempt or a node.
"""
