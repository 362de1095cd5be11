"""TensorFlowOnSpark's module of nodes: the context of a function, and the inside of a cluster. See `tf_inside`."""

from __future__ import annotations

from sparktf.compat.tensorflowonspark.tf_inside import inside_names
from sparktf.compat.tensorflowonspark.tf_node import TFNodeContext  # noqa: F401 - programs import it from here

globals().update(inside_names("TFSparkNode"))
