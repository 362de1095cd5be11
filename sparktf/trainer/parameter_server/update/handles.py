"""Handles of variables, which functions find on the parameter servers: they would be sent along with each execution.

TensorFlow sends whatever a function has captured with every call of it, some 140 bytes for the handle of a variable.
Those of a small model with its optimizer are more than all else that an execution takes over the coordinator's link.
"""

from __future__ import annotations

import uuid
from typing import Any

import tensorflow as tf


def without_handles(function: Any) -> Any:
    """Returns a function that does as another one, and has captured no handle of a variable on a parameter server.

    Args:
        function: A concrete one, of one tensor.
    """
    captured = function.captured_inputs
    held: dict[str, list[int]] = {}
    for number, tensor in enumerate(captured):
        device = tensor.device if tensor.dtype == tf.resource else ""
        if tf.DeviceSpec.from_string(device).job == "ps":
            held.setdefault(device, []).append(number)
    name = f"sparktf_handles_{uuid.uuid4().hex}"
    for device, numbers in held.items():
        with tf.device(device):
            tf.raw_ops.Stage(values=[captured[number] for number in numbers], shared_name=name)

    def call(argument: Any) -> Any:
        inputs = list(captured)
        for device, numbers in held.items():
            with tf.device(device):
                found = tf.raw_ops.StagePeek(index=0, dtypes=[tf.resource] * len(numbers), shared_name=name)
            for number, handle in zip(numbers, found, strict=True):
                inputs[number] = handle
        return function._call_flat([argument], inputs)

    (signature,) = function.structured_input_signature[0]
    return tf.function(call, input_signature=[signature], autograph=False).get_concrete_function()
