"""Sums over a gang, by the members' own connections.

Knows sockets and NumPy, and neither TensorFlow nor Spark. May import errors, the wire's security, and nothing of a
trainer.
"""
