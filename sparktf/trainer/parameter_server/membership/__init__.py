"""Who takes part: workers that come, are lost, and are followed by others, without a new TensorFlow cluster.

May import what a node is made of (`node`) and the model. Never knows what an update is.
"""
