"""The configuration: what a YAML file may say, how it is read, and what is told of what is wrong in it.

May import the root and results. Each section says its own `KEY`; `job` puts all of them together, and none imports it.
Never reads anything but the file, the command line and the date: no storage, no Spark.
"""
