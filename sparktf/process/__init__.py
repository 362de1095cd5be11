"""This process and its machine: its identity, its ports, the modules that it finds, and how it ends with its parent.

May import the root. Never knows of runs, nodes or storage.
"""
