"""The code that a user names: found, checked and loaded on the driver, and put together for the executors.

May import the configuration. Never imports pyspark or TensorFlow itself, and runs no code but what is asked for.
"""
