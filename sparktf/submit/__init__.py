"""What happens before and around the Spark application: building its `spark-submit` line, following it, packing for it.

May import what of the driver needs neither a session nor a gang. Never starts Spark or a JVM of its own.
"""
