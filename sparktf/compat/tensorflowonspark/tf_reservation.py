"""TensorFlowOnSpark's server at which nodes register: of its inside. See `tf_inside`."""

from __future__ import annotations

from sparktf.compat.tensorflowonspark.tf_inside import inside_names

globals().update(inside_names("reservation"))
