"""The data plane: Arrow record batches from where the data is, to tensors' arrays of exact row counts in the node.

May import the storage and below. Never touches a row by itself in Python, and knows neither Spark nor TensorFlow.
"""
