"""The coordinator's calls to the parameter servers' processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sparktf.errors import StorageError
from sparktf.knobs import KNOBS
from sparktf.trainer.parameter_server.checkpoint.shard_orders import SHARD, Look, ShardAnswer, ShardOrder


def device_of(server: int) -> str:
    """Returns TensorFlow's name of a parameter server's CPU."""
    return f"/job:ps/replica:0/task:{server}/device:CPU:0"


def server_of(variable: Any) -> int | None:
    """Returns the parameter server that holds a variable; None if none does."""
    device = tf.DeviceSpec.from_string(variable.device)
    return device.task if device.job == "ps" else None


class Servers:
    """All `count` parameter servers, which work on a checkpoint at the same time."""

    def __init__(self, count: int) -> None:
        self.count = count
        texts = tf.TensorSpec((count,), tf.string)
        self._asked = tf.function(self._ask_all, input_signature=[texts], autograph=False)

    def ask(self, orders: Sequence[ShardOrder]) -> list[ShardAnswer]:
        """Gives each server its order; returns their answers.

        Raises:
            StorageError: a server failed; names it.
            tf.errors.OpError: a server is lost.
        """
        answers = self._answers(orders)
        for server, answer in enumerate(answers):
            if answer.error:
                raise StorageError(f"ps {server}: {answer.error}")
            if answer.busy:
                raise StorageError(f"ps {server} still uploads its files of the previous checkpoint")
        return answers

    def ask_all(self, order: ShardOrder) -> list[ShardAnswer]:
        """Gives all servers the same order; see `ask`."""
        return self.ask([order] * self.count)

    def wait(self) -> list[str]:
        """Waits until all servers are idle; returns the error of each, "" for none.

        Raises:
            tf.errors.OpError: a server is lost.
        """
        answers = self._answers([Look()] * self.count)
        while any(answer.busy for answer in answers):
            time.sleep(KNOBS.shard_poll_s)
            answers = self._answers([Look()] * self.count)
        return [answer.error for answer in answers]

    def function(self, steps: Callable[[int, Any], Sequence[Callable[[], Any]]]) -> Any:
        """Returns a function of the servers' folders that runs each server's steps in sequence.

        Args:
            steps: Called with a server and its folder (a tensor); each returned step makes an operation.
        """

        def take(folders: Any) -> Any:
            done = [self._taken(server, steps(server, folders[server])) for server in range(self.count)]
            return tf.reduce_all(tf.stack(done))

        return tf.function(take, input_signature=[tf.TensorSpec((self.count,), tf.string)], autograph=False)

    @staticmethod
    def _taken(server: int, steps: Sequence[Callable[[], Any]]) -> Any:
        """Returns a tensor that depends on all steps: TensorFlow silently prunes operations that nothing depends on."""
        with tf.device(device_of(server)):
            last = tf.no_op()
            for step in steps:
                with tf.control_dependencies([last]):
                    last = step()
            with tf.control_dependencies([last]):
                return tf.constant(True)

    def _answers(self, orders: Sequence[ShardOrder]) -> list[ShardAnswer]:
        asked = np.array([order.model_dump_json() for order in orders], object)
        return [ShardAnswer.model_validate_json(answer) for answer in self._asked(asked).numpy()]

    def _ask_all(self, orders: Any) -> Any:
        answers = []
        for server in range(self.count):
            with tf.device(device_of(server)):
                (answer,) = tf.raw_ops.PyFunc(input=[orders[server]], token=SHARD, Tout=[tf.string])
            answer.set_shape(())
            answers.append(answer)
        return tf.stack(answers)
