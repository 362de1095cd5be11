"""The configuration: the keys of the YAML file, how it is read, and how its errors are worded.

May import the root and results. Each section names its own `KEY`; `job` assembles the sections, and none imports it.
Reads the file, the command line and the date, and never storage or Spark.
"""
