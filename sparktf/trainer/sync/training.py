"""The entry of a worker: trains a compiled Keras model, or runs a hand-written loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sparktf.trainer.model.model import is_low_level, load_function
from sparktf.trainer.node.checkpoint_writer import CheckpointWriter
from sparktf.trainer.node.inputs import Input
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.outputs import Output
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.saving import Saves
from sparktf.trainer.sync.keras_run import KerasRun
from sparktf.trainer.sync.strategy import make_strategy
from sparktf.trainer.sync.trainer_node import TrainerNode


def train_synchronously(place: Place) -> None:
    """Trains as specified; ends the process, or raises.

    Make the strategy before anything else, even before importing the user's module, which may already touch TensorFlow.
    """
    tf.get_logger().setLevel("ERROR")
    member = member_of(place)
    function: Callable[..., Any] = load_function(place.spec.config)
    if is_low_level(function):
        TrainerNode(member).run(function)
    else:
        KerasRun(member, function).run()


def member_of(place: Place) -> Member:
    """Returns the worker of a place, with its strategy."""
    by_tensorflow = place.spec.collectives == "tensorflow"
    strategy = make_strategy(place.workers if by_tensorflow else 1, place.spec.config.cluster.devices)
    read = Input(place)
    return Member(place, strategy, read, Saves(place, CheckpointWriter), Output(place, read.sampled))
