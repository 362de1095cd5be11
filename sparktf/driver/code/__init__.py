"""The code that a user names: found, checked and loaded on the driver, and packed for the executors.

May import the configuration. Never imports pyspark or TensorFlow itself, and runs no code that it is not asked to.
"""
