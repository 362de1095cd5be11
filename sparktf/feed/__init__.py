"""The data plane: from planned splits to batches of NumPy arrays in the node."""
