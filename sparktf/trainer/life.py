"""The two ways that a trainer trains: a compiled Keras model in sparktf's loop, or a loop of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.trainer.model.model import is_low_level, load_function
from sparktf.trainer.node.report import Reporter
from sparktf.trainer.sync.keras_run import KerasRun
from sparktf.trainer.sync.lowlevel import TrainerNode
from sparktf.trainer.sync.session import Session
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import TrainerSpec


def run(spec: TrainerSpec, client: ControlClient, reporter: Reporter, work: Path) -> None:
    """Trains as the specification says; it returns only by ending the process, or by an exception.

    The strategy comes before everything else, the user's module too: importing that may already touch TensorFlow.
    """
    tf.get_logger().setLevel("ERROR")
    session = Session(spec, client, reporter, work)
    function: Callable[..., Any] = load_function(spec.config)
    if is_low_level(function):
        TrainerNode(session).run(function)
    else:
        KerasRun(session, function).run()
