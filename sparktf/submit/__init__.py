"""Submission: builds the `spark-submit` line, packs the code, and follows the application.

May import what of the driver needs neither a session nor a gang. Never starts Spark or a JVM of its own.
"""
