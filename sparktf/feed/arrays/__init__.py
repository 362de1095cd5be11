"""Columns as Arrow and NumPy hold them: their types, conversions, nested values, and how processes share them.

May import the root. Never reads a file or opens a socket.
"""
