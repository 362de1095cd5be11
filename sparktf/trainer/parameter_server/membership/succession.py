"""How a lost worker's successor joins a cluster that TensorFlow has fixed: the only place that reaches into TensorFlow.

Theory: a view change, as in group membership, by a primary (the coordinator) that alone defines views. A *view* is
TensorFlow's cluster definition: one address for each seat. The number of seats is fixed for the attempt.

- When TensorFlow loses a worker it sends the definition out again, to bring in a server at the same address, and goes
  on with the other workers. That is the point at which a view can be changed, and the only one.
- A view is installed with all seats or not at all: a call to a server that does not answer never returns, even if the
  seat is filled later. So the definition is held until an address in each seat has answered, then sent with those.
- A seat need not be filled by a worker. Where the driver says that none may come for long, a *stand-in* on the
  coordinator answers for it and gets no executions; when a worker comes after all, the definition is sent once more.
- Incarnations order the workers of a seat. A definition names the newest that the driver has told of; what an older one
  says is refused by the driver and by the tally, so no view needs to be agreed upon with a worker that is gone.
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
from sparktf.topology import NodeId
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.report import say
from sparktf.trainer.parameter_server.membership.doors import Door, StandIns
from sparktf.trainer.parameter_server.membership.knocking import Answer, all_answer, knock
from sparktf.trainer.parameter_server.membership.seats import Call, Seat, are_filled, is_abandoned, is_cut_off, seat
from sparktf.wire.control import WorkerPlace

_KNOWN = "2.21."


class Succession:
    """Holds the cluster's definition while a seat is empty, and puts the addresses of successors into it.

    Attributes:
        sending: Held while it is sent out.
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
            workers: Returns who the workers are now, in the order of their indices.
            seated: Whom TensorFlow has connected to.
            fail: Ends the attempt, with `NodeLostError` where a worker is cut off: a call to it would never end. It is
                called in a thread of its own, since whoever trains may be in such a call.
            stop_s: A trainer that is told to stop may take so long, `timeouts.stop`.
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
        """Takes the sending of the cluster's definition over, and looks after the seats from now on.

        Raises:
            PreflightError: this version of TensorFlow does it otherwise.
        """
        if not tf.__version__.startswith(_KNOWN) or self._errors() is None:
            raise PreflightError(
                f"cluster.strategy: parameter_server replaces lost workers in TensorFlow {_KNOWN}x alone, and this is "
                f"{tf.__version__}"
            )
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
        """How many executions have broken off on each worker, by its node and incarnation."""
        return Counter(
            {(door.place.node, number): count for door in self._doors for number, count in door.broken_off.items()}
        )

    # ---- the definition ----

    def _errors(self) -> list[Any] | None:
        """Returns by which errors TensorFlow has lost which workers; None where it does not tell so."""
        with suppress(AttributeError):
            return [worker._is_dead_with_error or None for worker in self._coordinator._cluster.workers]
        return None

    def _seats(self, errors: Sequence[Any]) -> list[Seat]:
        """Returns who is where. A worker that was lost when the definition was sent last has its successor since.

        TensorFlow goes on to call it lost: two that are lost at once are brought in one after the other.
        """
        places = [self._with_stand_in(index, place) for index, place in enumerate(self._workers().values())]
        known = zip(self._seated, places, errors, self._answered, self._doors, strict=True)
        return [
            seat(seated.incarnation, place, error, answered, has_call=door.call is not None)
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
            # Else TensorFlow knows them all: each time less that somebody may be lost meanwhile.
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
                    say(f"sparktf: a stand-in has the place of {place.node}")
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
                # TensorFlow misses nobody there: it is told to send the definition all the same.
                self._coordinator._cluster.failure_handler._cluster_due_for_update_or_finish.set()
            if (call := door.call) is not None:
                is_gone = error is None and place.incarnation > call.place.incarnation
                self._follow(node, door, call, is_gone=is_gone)
            elif error is None:
                idle.append(door.place)
        self._follow_uncalled(self._sent_to, idle)

    def _follow_uncalled(self, sent_to: Sequence[WorkerPlace], idle: Sequence[WorkerPlace]) -> None:
        """Fails where a worker that is gone would be waited for for ever, although nothing is executed there.

        Args:
            sent_to: To whom the definition is being sent, which never ends where one of them is gone since.
            idle: Who executes nothing. TensorFlow sends each new function to them, too, and waits where their host
                cannot be reached: an export would stand still.
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
                    f"{node} at {place.address} was lost while the cluster's definition was sent to it, which neither "
                    "ends nor breaks off"
                )
            if knock(place.address) is Answer.NONE:
                raise NodeLostError(f"{node} at {place.address} is lost, and its host cannot be reached")

    def _follow(self, node: NodeId, door: Door, call: Call, *, is_gone: bool) -> None:
        """Fails where a call to a worker that is gone would never end."""
        now_s = self._clock.now_s()
        if is_gone != (call.gone_s is not None):
            door.note(call, now_s if is_gone else None)
        elif is_cut_off(call, now_s, self._stop_s):
            is_out_of_reach = knock(call.place.address) is Answer.NONE
            if is_out_of_reach or is_abandoned(call, now_s, self._stop_s):
                why = "its host cannot be reached" if is_out_of_reach else "its host can be reached again"
                raise NodeLostError(
                    f"{node} at {call.place.address} is lost, and a call to it neither ends nor breaks off: {why}"
                )


def look_after_workers(coordinator: Any, place: Place, seated: Sequence[WorkerPlace]) -> Succession:
    """Has successors of lost workers join from now on, and stand-ins where none comes.

    Args:
        coordinator: TensorFlow's.
        place: Of the coordinator's node.
        seated: Whom TensorFlow has connected to.

    Raises:
        PreflightError: this version of TensorFlow does it otherwise.
    """
    host = place.spec.cluster.chief[0].rpartition(":")[0]
    stop_s = place.spec.config.timeouts.stop
    succession = Succession(coordinator, place.workers_now, StandIns(host), seated, fail=place.fail, stop_s=stop_s)
    succession.take_over()
    return succession
