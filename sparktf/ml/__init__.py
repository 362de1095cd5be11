"""Keras models as stages of Spark ML pipelines: `KerasEstimator` and `KerasModel`. Above the driver.

May import the public entry points of training and scoring, and pyspark.ml. Nobody below imports it; importing it needs
pyspark, and no TensorFlow.
"""

from __future__ import annotations

from sparktf.ml.estimator import KerasEstimator
from sparktf.ml.fitted import KerasModel

__all__ = ["KerasEstimator", "KerasModel"]
