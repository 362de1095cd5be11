"""Sums over a gang, by the members' own connections: sockets and NumPy.

May import the wire's security and errors. Never imports TensorFlow or Spark, and never knows what it sums.
"""
