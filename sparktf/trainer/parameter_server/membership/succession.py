"""Succession: a lost worker's successor joins a cluster whose membership TensorFlow has fixed.

Theory. A `ClusterCoordinator` knows its workers by index, for ever. When a call to one fails, TensorFlow puts the
closure back into the queue for any worker, sends the cluster definition (`update_server_def`) to all nodes again, and
goes on calling the same index: whichever process listens at that address then is the successor. That is replacement
in a static membership, with three traps:

1. The address in the definition is the old one, while a successor listens elsewhere. So sending is intercepted, and the
   current addresses, which the driver alone decides, are written into the definition. Incarnation numbers order them.
2. A call to an address where nothing answers never returns, not even when the place is filled later. So the definition
   is held back until every seat has an address that answers HTTP/2 (`knocking`): a barrier over all indices.
3. A place may stay empty for long, which would hold back everybody's successors. The driver then names it a stand-in:
   a server in this process takes the address, and its `Door` is closed, so that closures go to other workers. Once a
   real successor comes, the failure handler is woken, and the definition is sent once more.

Liveness. A TCP connection to a host that is cut off or frozen does not break, and the call over it blocks for ever.
The driver, which hears heartbeats, is the failure detector: once it names a newer incarnation, a call to the older one
has `stop + reconnect` seconds to break off (`seats.is_cut_off`); if it does not, the attempt fails with NodeLostError,
from a thread of its own, because the training thread may be inside that call.
This is the only module that reaches into TensorFlow's private names for it, hence the check of its version.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from sparktf.clock import ListeningClock, SystemClock
from sparktf.errors import NodeLostError, PreflightError
from sparktf.knobs import KNOBS
from sparktf.process.supported import servers_complaint
from sparktf.topology import NodeId
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.report import log_line
from sparktf.trainer.parameter_server.membership.doors import Door, StandIns
from sparktf.trainer.parameter_server.membership.knocking import Probe, all_answer, knock
from sparktf.trainer.parameter_server.membership.seats import Call, Reach, are_filled, is_abandoned, is_cut_off, reach
from sparktf.wire.control import WorkerPlace


class Succession:
    """Holds back the cluster definition while a seat is empty, and writes the successors' addresses into it.

    Attributes:
        sending: Lock held while the definition is sent.
    """

    def __init__(
        self,
        coordinator: Any,
        workers: Callable[[], dict[NodeId, WorkerPlace]],
        stand_ins: StandIns,
        seated: Sequence[WorkerPlace],
        *,
        fail: Callable[[BaseException], None],
        stop_s: float,
    ) -> None:
        """Changes nothing yet.

        Args:
            coordinator: TensorFlow's.
            workers: Returns the current workers, in the order of their indices.
            seated: The workers that TensorFlow has connected to.
            fail: Ends the attempt; called from another thread.
            stop_s: `timeouts.stop`: the most that a trainer takes to stop.
        """
        self._coordinator = coordinator
        self._workers = workers
        self._stand_ins = stand_ins
        self._fail = fail
        self._stop_s = stop_s
        self._clock = ListeningClock(SystemClock())
        self._seated = list(seated)
        self._answered: list[Any] = [None] * len(self._seated)
        self._doors: list[Door] = []
        self._standing: dict[int, str] = {}
        self._sent_to: Sequence[WorkerPlace] = ()
        self._gone_s: dict[NodeId, float] = {}
        self._send: Callable[..., Any] = context.context().update_server_def
        self.sending = threading.Lock()

    def take_over(self) -> None:
        """Intercepts the sending of the cluster definition, and watches the seats from now on.

        Raises:
            PreflightError: the way successors are brought in is not known for this version of TensorFlow.
        """
        if complaint := servers_complaint(tf.__version__):
            raise PreflightError(complaint)
        cluster = self._coordinator._cluster
        self._doors = [
            Door(place, worker, cluster.closure_queue)
            for place, worker in zip(self._seated, cluster.workers, strict=True)
        ]
        cluster.closure_queue.put_back = partial(self._put_back, cluster.closure_queue.put_back)
        context.context().update_server_def = self._send_when_filled
        threading.Thread(target=self._run, name="seats", daemon=True).start()

    @property
    def broken_off(self) -> Counter[tuple[NodeId, int]]:
        """Number of executions that broke off on each worker, by node and incarnation."""
        return Counter(
            {(door.place.node, number): count for door in self._doors for number, count in door.broken_off.items()}
        )

    # ---- the definition ----

    def _errors(self) -> list[Any] | None:
        """Returns the error by which TensorFlow lost each worker; None if this TensorFlow does not record them."""
        with suppress(AttributeError):
            return [worker._is_dead_with_error or None for worker in self._coordinator._cluster.workers]
        return None

    def _seats(self, errors: Sequence[Any]) -> list[Reach]:
        """Returns all seats. A worker that was lost when the definition was last sent has had its successor since.

        TensorFlow still records the loss: of two workers lost at once, it brings in one after the other.
        """
        places = [self._with_stand_in(index, place) for index, place in enumerate(self._workers().values())]
        known = zip(self._seated, places, errors, self._answered, self._doors, strict=True)
        return [
            reach(seated.incarnation, place, error, answered, has_call=door.call is not None)
            for seated, place, error, answered, door in known
        ]

    def _put_back(self, put_back: Callable[[Any], None], closure: Any) -> None:
        for door in self._doors:
            door.note_put_back(closure)
        put_back(closure)

    def _with_stand_in(self, index: int, place: WorkerPlace) -> WorkerPlace:
        return place.model_copy(update={"address": self._standing.get(index, "")}) if place.stand_in else place

    def _send_when_filled(self, server_def: Any, *args: Any, **kwargs: Any) -> Any:
        began_s = self._clock.now_s()
        while True:
            seats = self._seats(errors := self._errors() or [])
            if are_filled(seats, self._clock.now_s() - began_s) and all_answer(seat.now.address for seat in seats):
                break
            time.sleep(KNOBS.fetch_again_s)
        places = [seat.now for seat in seats]
        sent = None
        if any(seat.is_lost for seat in seats) or places != self._seated:
            # Else TensorFlow knows them all. Each sending that is left out cannot meet a worker that is just lost.
            for job in server_def.cluster.job:
                if job.name == "worker":
                    for index, place in enumerate(places):
                        job.tasks[index] = place.address
            with self.sending:
                self._sent_to = [place for place in places if not place.stand_in]
                try:
                    sent = self._send(server_def, *args, **kwargs)
                finally:
                    self._sent_to = ()
            for place in places:
                if place.stand_in:
                    log_line(f"sparktf: {place.node} is missing: a stand-in has its place until a successor comes")
            self._seated, self._answered = places, errors
        for index, place in enumerate(places):
            self._doors[index].place = place
            if not place.stand_in:
                self._standing.pop(index, None)
                self._doors[index].open()
        return sent

    # ---- the seats ----

    def _run(self) -> None:
        try:
            while True:
                self._look()
                time.sleep(KNOBS.fetch_again_s)
        except BaseException as error:  # noqa: BLE001 - the edge of a thread: whatever it is, the driver gets it
            self._fail(error)

    def _look(self) -> None:
        idle: list[WorkerPlace] = []
        seats = zip(self._workers().items(), self._doors, self._errors() or [], strict=True)
        for (node, place), door, error in seats:
            if place.stand_in:
                door.close()
                if node.index not in self._standing:
                    self._standing[node.index] = self._stand_ins.start(node.index)
            elif place.address and not door.is_open:
                # TensorFlow sees no failure at the stand-in, so it must be made to send the definition again.
                self._coordinator._cluster.failure_handler._cluster_due_for_update_or_finish.set()
            if (call := door.call) is not None:
                is_gone = error is None and place.incarnation > call.place.incarnation
                self._follow(node, door, call, is_gone=is_gone)
            elif error is None:
                idle.append(door.place)
        self._follow_uncalled(self._sent_to, idle)

    def _follow_uncalled(self, sent_to: Sequence[WorkerPlace], idle: Sequence[WorkerPlace]) -> None:
        """Fails if TensorFlow would wait for ever for a worker that is gone and executes nothing.

        Args:
            sent_to: Workers that the definition is being sent to; that never ends once one of them is gone.
            idle: Workers without an execution. TensorFlow registers each new function with them, too, and waits if
                their host is unreachable: an export would hang.
        """
        now_s, workers = self._clock.now_s(), self._workers()
        gone = {place.node: place for place in (*idle, *sent_to) if workers[place.node].incarnation > place.incarnation}
        self._gone_s = {node: self._gone_s.get(node, now_s) for node in gone}
        for node, gone_s in self._gone_s.items():
            place = gone[node]
            if not is_cut_off(Call(place, gone_s), now_s, self._stop_s):
                continue
            if place in sent_to:
                raise NodeLostError(
                    f"{node} at {place.address} was lost while it was sent the cluster definition, and that call does "
                    "not end"
                )
            if knock(place.address) is Probe.NONE:
                raise NodeLostError(f"{node} at {place.address} is lost, and its host cannot be reached")

    def _follow(self, node: NodeId, door: Door, call: Call, *, is_gone: bool) -> None:
        """Fails if a call to a worker that is gone would never return."""
        now_s = self._clock.now_s()
        if is_gone != (call.gone_s is not None):
            door.note(call, now_s if is_gone else None)
        elif is_cut_off(call, now_s, self._stop_s):
            is_out_of_reach = knock(call.place.address) is Probe.NONE
            if is_out_of_reach or is_abandoned(call, now_s, self._stop_s):
                why = "its host cannot be reached" if is_out_of_reach else "its host can be reached again"
                raise NodeLostError(f"{node} at {call.place.address} is lost, and a call to it does not end: {why}")


def look_after_workers(coordinator: Any, place: Place, seated: Sequence[WorkerPlace]) -> Succession:
    """Lets successors of lost workers join from now on. Arguments and errors are those of `Succession`."""
    host = place.spec.cluster.chief[0].rpartition(":")[0]
    stop_s = place.spec.config.timeouts.stop
    succession = Succession(coordinator, place.workers_now, StandIns(host), seated, fail=place.fail, stop_s=stop_s)
    succession.take_over()
    return succession
