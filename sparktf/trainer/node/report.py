"""A trainer's heartbeats and messages to the driver, and the orders that come back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from sparktf.errors import ControlError, DriverLostError, RefusedError
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.results.pace import UpdatePace
from sparktf.results.usage import Usage
from sparktf.trainer.node.position import Position, Positioned
from sparktf.wire.beats import QUICK_S
from sparktf.wire.channel import ControlClient, Silence
from sparktf.wire.control import (
    Ack,
    Action,
    Failed,
    Heartbeat,
    Progress,
    StopOrder,
    TrainerOrder,
    TrainerOrders,
    WorkerPlace,
    WorkersOrder,
)
from sparktf.wire.regrouping import GenerationOver, JoinersWait
from sparktf.wire.trainer_spec import TrainerSpec

EXIT_STOPPED = 143
EXIT_DRIVER_LOST = 70


def log_line(text: str) -> None:
    """Writes to the trainer's log; on a full disk only the text is lost."""
    with suppress(OSError):
        print(text, flush=True)


class Metered(Protocol):
    """Measures this process."""

    def read(self) -> Usage:
        """Returns the usage; from any thread."""


class Reporter:
    """Sends heartbeats from a thread, and ends the process when ordered to, or when the driver is gone.

    The main thread may be in a collective that no peer will ever answer: then only another thread can end the process.
    """

    def __init__(self, client: ControlClient, spec: TrainerSpec) -> None:
        self._client = client
        self._spec = spec
        self._loop: Positioned | None = None
        self._meter: Metered | None = None
        self._pace: Callable[[], UpdatePace | None] = lambda: None
        self._phase: Callable[[], str] = lambda: "starting"
        self._workers: tuple[WorkerPlace, ...] = ()
        self._leave: Callable[[int], None] = lambda generation: None
        self._joiners_wait = False
        self._finished, self._due = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def progress(self) -> Progress:
        at = Position() if self._loop is None else self._loop.position
        return Progress(epoch=at.epoch, step=at.step, rows_trained=at.rows, loss=at.loss, phase=self._phase())

    def follow(self, loop: Positioned) -> None:
        """See `Place.follow`."""
        self._loop = loop

    def leave_at(self, leave: Callable[[int], None]) -> None:
        """See `Place.leave_at`."""
        self._leave = leave

    def take_joiners_wait(self) -> bool:
        """See `Place.take_joiners_wait`."""
        found, self._joiners_wait = self._joiners_wait, False
        return found

    def measure(self, meter: Metered) -> None:
        """See `Place.measure`."""
        self._meter = meter

    def tell_pace(self, pace: Callable[[], UpdatePace]) -> None:
        """See `Place.tell_pace`."""
        self._pace = pace

    def enter(self, phase: str) -> None:
        """See `Place.enter`."""
        self._phase = lambda: phase

    def tell_phase(self, phase: Callable[[], str]) -> None:
        """Has each heartbeat ask for the phase from now on."""
        self._phase = phase

    @property
    def workers(self) -> tuple[WorkerPlace, ...]:
        """Workers that replace those the attempt began with, by the driver's last order."""
        return self._workers

    def send(self, action: Action, message: Message) -> None:
        """See `Place.send`. A heartbeat goes first, so that the driver knows the position that the message is about."""
        with suppress(ControlError):
            self._beat()
        self._client.call_patiently(action, message, Ack, patience_s=self._spec.timeouts.driver_lost)

    def fail(self, failed: Failed) -> None:
        """Reports the failure; a driver that cannot be reached sees the exit code."""
        try:
            self._client.call_patiently(Action.FAILED, failed, Ack, patience_s=KNOBS.driver_gone_s)
        except ControlError as e:
            log_line(f"sparktf: the failure could not be reported to the driver: {e}")

    def finish(self) -> None:
        """Waits for the order to stop: a worker that leaves early would break its peers' collectives."""
        self.expect_stop()
        self._due.set()  # only an order is missing now
        self._thread.join()

    def expect_stop(self) -> None:
        """See `Place.expect_stop`."""
        self._finished.set()

    def _run(self) -> None:
        timeouts = self._spec.timeouts
        silence = Silence(timeouts.driver_lost)
        while True:
            began_s, beat_s = time.monotonic(), QUICK_S
            try:
                beat_s = self._beat()
                silence.end()
            except RefusedError as e:
                self._exit(EXIT_STOPPED, str(e))
            except DriverLostError as e:
                if silence.is_too_long(e, began_s=began_s, ended_s=time.monotonic(), timeout_s=timeouts.heartbeat):
                    self._exit(EXIT_DRIVER_LOST, str(e))
            except ControlError as e:
                log_line(f"sparktf: heartbeat: {e}")
            self._due.wait(beat_s)
            self._due.clear()

    def _beat(self) -> float:
        """Sends a heartbeat and carries out the orders; returns the seconds until the next one."""
        spec = self._spec
        usage = None if self._meter is None else self._meter.read()
        beat = Heartbeat(**spec.sender, progress=self.progress, usage=usage, pace=self._pace())
        answer = self._client.call(Action.HEARTBEAT, beat, TrainerOrders, timeout_s=spec.timeouts.heartbeat)
        self._joiners_wait = any(isinstance(order, JoinersWait) for order in answer.orders)
        for order in answer.orders:
            self._obey(order)
        return answer.beat_s

    def _obey(self, order: TrainerOrder) -> None:
        match order:
            case StopOrder():
                self._exit(0 if self._finished.is_set() else EXIT_STOPPED, "stopped by the driver")
            case WorkersOrder():
                self._workers = order.workers
            case GenerationOver():
                self._leave(order.number)

    def _exit(self, code: int, reason: str) -> None:
        """Ends the process at once: MultiWorkerMirroredStrategy's own shutdown waits long for lost peers."""
        log_line(f"sparktf: {self._spec.node} exits with {code}: {reason}")
        os._exit(code)
