"""Scoring with a model that was trained here: columns become tensors as they did in training.

Stands above `driver/`, as `nightly/` does; training learns nothing of it.
"""
