"""What happens before and around the Spark application: building its `spark-submit` line, following it, packing for it.

Runs without Spark and without a JVM of its own.
"""
