"""How a lost worker's successor joins a cluster that TensorFlow has fixed: the only place that reaches into TensorFlow.

When TensorFlow loses a worker it sends the cluster's definition out once more, to bring in whoever listens at the same
address by then, and goes on with the other workers. What it sends must name a server that answers in every seat: a
call to one that does not never returns, not even when the seat is filled later. So it is held until each seat has an
address that answers, and then sent with the addresses of now.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from sparktf.errors import PreflightError
from sparktf.knobs import KNOBS
from sparktf.topology import NodeId
from sparktf.trainer.parameter_server.seats import Seat, are_filled
from sparktf.wire.control import WorkerPlace

_KNOWN = "2.21."
_ANSWER_S = 1.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of HTTP/2 begins, with settings of none; the server answers its own."""


class Succession:
    """Holds the cluster's definition while a seat is empty, and puts the addresses of successors into it.

    Attributes:
        sending: Held while it is sent out.
    """

    def __init__(self, coordinator: Any, workers: Callable[[], dict[NodeId, WorkerPlace]]) -> None:
        """Changes nothing yet.

        Args:
            coordinator: TensorFlow's.
            workers: Returns who the workers are now, in the order of their indices.
        """
        self._coordinator = coordinator
        self._workers = workers
        self._seated = [place.incarnation for place in workers().values()]
        self._answered: list[Any] = [None] * len(self._seated)
        self._send: Callable[..., Any] = context.context().update_server_def
        self.sending = threading.Lock()

    def take_over(self) -> None:
        """Takes the sending of the cluster's definition over.

        Raises:
            PreflightError: this version of TensorFlow does it otherwise.
        """
        if not tf.__version__.startswith(_KNOWN) or self._errors() is None:
            raise PreflightError(
                f"cluster.strategy: parameter_server replaces lost workers in TensorFlow {_KNOWN}x alone, and this is "
                f"{tf.__version__}"
            )
        context.context().update_server_def = self._send_when_filled

    def _errors(self) -> list[Any] | None:
        """Returns by which errors TensorFlow has lost which workers; None where it does not tell so."""
        with suppress(AttributeError):
            return [worker._is_dead_with_error or None for worker in self._coordinator._cluster.workers]
        return None

    def _seats(self, errors: Sequence[Any]) -> list[Seat]:
        """Returns who is where. A worker that was lost when the definition was sent last has its successor since.

        TensorFlow goes on to call it lost: two that are lost at once are brought in one after the other.
        """
        lost = [
            error is not None and error is not answered for error, answered in zip(errors, self._answered, strict=True)
        ]
        return [Seat(*seat) for seat in zip(lost, self._seated, self._workers().values(), strict=True)]

    def _send_when_filled(self, server_def: Any, *args: Any, **kwargs: Any) -> Any:
        began_s = time.monotonic()
        while True:
            seats = self._seats(errors := self._errors() or [])
            if are_filled(seats, time.monotonic() - began_s) and _all_answer(seats):
                break
            time.sleep(KNOBS.fetch_again_s)
        if not any(seat.is_lost or seat.now.incarnation != seat.incarnation for seat in seats):
            return None  # TensorFlow knows them all: each time less that somebody may be lost meanwhile
        for job in server_def.cluster.job:
            if job.name == "worker":
                for index, seat in enumerate(seats):
                    job.tasks[index] = seat.now.address
        with self.sending:
            sent = self._send(server_def, *args, **kwargs)
        self._seated, self._answered = [seat.now.incarnation for seat in seats], errors
        return sent


def _all_answer(seats: Sequence[Seat]) -> bool:
    return all(_answers(seat.now.address) for seat in seats)


def _answers(address: str) -> bool:
    """Whether a server of gRPC's is there that runs: the kernel takes connections for a frozen one, too.

    TensorFlow would wait for it with Python's lock held, and the driver would hear nothing more of this process.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _ANSWER_S) as connection:
            connection.sendall(_HELLO)
            return bool(connection.recv(1))
    except OSError:
        return False
