"""Rows that other processes bring to a node: the server and its clients, and the memory and files where rows wait.

May import the feed's arrays and the wire. Never reads the lake.
"""
