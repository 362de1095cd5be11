"""A node's place in the run: its identity, its channel to the driver, and its files."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NoReturn, TypeVar

from sparktf.message import Message
from sparktf.results.pace import UpdatePace
from sparktf.sequence import Stream
from sparktf.storage.file_systems import FileSystems
from sparktf.topology import NodeId
from sparktf.trainer.node import ending
from sparktf.trainer.node.position import Positioned
from sparktf.trainer.node.printed_lines import Printing
from sparktf.trainer.node.report import Metered, Reporter, log_line
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action, Printed, Ready, Warned, WorkerPlace
from sparktf.wire.trainer_spec import Training

_ASKED_AGAIN_S = 0.002
"""Pause before a question is asked again. The driver waits with its answer, so that this is no interval of asking."""

_Answer = TypeVar("_Answer", bound=Message)


class Place:
    """The common part of all trainers.

    Attributes:
        spec: The attempt's specification for this node.
        client: The channel to the driver.
        work: This process's own folder on the executor's local disk.
        rundir: Names of the run's files.
        file_systems: Opens any storage with the credentials of this process.
        storage: The storage of the run directory.
        began_s: Start of this process, by its monotonic clock.
        generation: Returns the number of the gang's present generation.
        is_leader: Returns whether this node leads it.
    """

    def __init__(self, spec: Training, client: ControlClient, reporter: Reporter, work: Path) -> None:
        self.spec = spec
        self.client = client
        self.work = work
        self.rundir = spec.rundir
        self.file_systems = FileSystems(spec.hadoop)
        self.storage = self.file_systems.open_runs(spec.run_root)
        self.began_s = time.monotonic()
        self.generation: Callable[[], int] = lambda: 1
        self.is_leader: Callable[[], bool] = lambda: spec.leads
        self._reporter = reporter
        self._printing = Printing(self._send_printed)

    @property
    def workers(self) -> int:
        """Number of workers in this attempt, which may be fewer than configured."""
        return len(self.spec.cluster.worker)

    @property
    def leads(self) -> bool:
        """Whether this node reports and writes on behalf of all, at present."""
        return self.is_leader()

    @property
    def evaluates(self) -> bool:
        """Whether training nodes also evaluate: there are validation rows, and no evaluator."""
        return self.spec.has(Stream.VALIDATION) and not self.spec.config.cluster.evaluator

    def follow(self, loop: Positioned) -> None:
        """Puts a loop's position into heartbeats from now on."""
        self._reporter.follow(loop)

    def take_joiners_wait(self) -> bool:
        """Returns whether others wait to join, by the driver's last word to the leader; each word counts once."""
        return self._reporter.take_joiners_wait()

    def leave_at(self, leave: Callable[[int], None]) -> None:
        """Has the driver's word that a generation of the gang is over taken by `leave`, from now on."""
        self._reporter.leave_at(leave)

    def measure(self, meter: Metered) -> None:
        """Puts this process's usage into heartbeats from now on."""
        self._reporter.measure(meter)

    def tell_pace(self, pace: Callable[[], UpdatePace]) -> None:
        """Puts the pace of this node's updates into heartbeats from now on; `pace` is called from any thread."""
        self._reporter.tell_pace(pace)

    def enter(self, phase: str) -> None:
        """Puts this node's phase into heartbeats from now on."""
        self._reporter.enter(phase)

    def send(self, action: Action, message: Message) -> None:
        """Delivers a message, trying for as long as the driver may be away.

        Raises:
            ControlError: it could not be delivered.
        """
        self._reporter.send(action, message)

    def ask(self, action: Action, request: Message, answer: type[_Answer]) -> _Answer:
        """Returns the driver's answer, trying for as long as the driver may be away.

        Raises:
            ControlError: there is no answer.
        """
        patience_s = self.spec.config.timeouts.driver_lost
        return self.client.call_patiently(action, request, answer, patience_s=patience_s)

    def warn(self, text: str) -> None:
        """Reports a problem that does not end the run, to the driver and to the log."""
        log_line(f"sparktf: {text}")
        self.send(Action.WARNING, Warned(**self.spec.sender, text=text))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Shows in the driver's output what the block prints, on the leader."""
        if not self.leads:
            yield
            return
        with self._printing.heard():
            yield

    def _send_printed(self, text: str) -> None:
        self.send(Action.PRINTED, Printed(**self.spec.sender, text=text))

    def ready(self, message: Ready) -> None:
        """Tells the driver that this node has started, and cancels the dump of a start that hangs."""
        self.send(Action.READY, message)
        faulthandler.cancel_dump_traceback_later()

    def workers_now(self) -> dict[NodeId, WorkerPlace]:
        """Returns the current workers: those of the specification, as updated by the driver."""
        return self._first_workers | {place.node: place for place in self._reporter.workers}

    @cached_property
    def _first_workers(self) -> dict[NodeId, WorkerPlace]:
        at_first = self.spec.cluster.workers().items()
        return {node: WorkerPlace(node=node, incarnation=0, address=address) for node, address in at_first}

    def expect_stop(self) -> None:
        """Treats an order to stop as the orderly end from now on, for a node that does not end by itself."""
        self._reporter.expect_stop()

    def fail(self, error: BaseException) -> NoReturn:
        """Reports an error to the driver, and ends the process; from any thread."""
        ending.fail(error, self.spec, self._reporter, self.work)

    def leave(self) -> None:
        """Waits for the order to stop, which ends the process."""
        self._reporter.finish()


def asked_until(ask: Callable[[], _Answer], done: Callable[[_Answer], bool]) -> _Answer:
    """Returns the first answer with which a wait for the driver is done, which waits with an answer where it is not."""
    while not done(found := ask()):
        time.sleep(_ASKED_AGAIN_S)
    return found
