"""Keras models as stages of Spark ML pipelines: for classes, for numbers, and for anything else. Above the driver.

May import the public entry points of training and scoring, and pyspark.ml. Nobody below imports it; importing it needs
pyspark, and no TensorFlow.
"""

from __future__ import annotations

from sparktf.ml.classification import KerasClassificationModel, KerasClassifier
from sparktf.ml.estimator import KerasEstimator
from sparktf.ml.fitted import KerasModel
from sparktf.ml.regression import KerasRegressionModel, KerasRegressor
from sparktf.ml.summary import KerasTrainingSummary

__all__ = [
    "KerasClassificationModel",
    "KerasClassifier",
    "KerasEstimator",
    "KerasModel",
    "KerasRegressionModel",
    "KerasRegressor",
    "KerasTrainingSummary",
]
