"""The configuration: what a YAML file may say, how it is read, and what is told of what is wrong in it.

May import the root. Never reads anything but the file, the command line and the date: no storage, no Spark.
"""
