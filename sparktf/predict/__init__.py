"""Scoring with a model that was trained here: columns become tensors as they did in training. Above the driver.

May import what finds rows and models: storage, plan, sources, what is published. Never trains, holds a gang or imports
TensorFlow, which is a process of its own on each executor; nothing below learns of it.
"""
