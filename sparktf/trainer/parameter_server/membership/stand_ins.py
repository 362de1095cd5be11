"""Servers that stand in for workers: TensorFlow needs somebody in each place who answers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class StandIns:
    """They are in this process, so that none is lost before it, and make no updates. TensorFlow cannot end them."""

    def __init__(self, host: str) -> None:
        """Starts none.

        Args:
            host: By which others reach this process.
        """
        self._host = host
        self._servers: list[Any] = []

    def start(self, index: int) -> str:
        """Starts one for a worker, at a free port; returns its address."""
        addresses = {"worker": {index: f"{self._host}:0"}}
        server = tf.distribute.Server(addresses, job_name="worker", task_index=index, protocol="grpc")
        self._servers.append(server)
        return f"{self._host}:{server.target.rpartition(':')[2]}"
