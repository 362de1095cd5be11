"""Scoring with a trained model: columns become tensors as they did in training. Above the driver.

May import what finds rows and models: storage, plan, sources, published models. Never trains, holds a gang or imports
TensorFlow, which runs in a process of its own on each executor; nothing below imports it.
"""
