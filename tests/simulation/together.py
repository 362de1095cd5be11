"""Updates that several workers make together: the product's rounds, around them what TensorFlow does for both ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from simulation.hub import PeerLostError, Process, SimCondition
from simulation.nodes import Ids
from simulation.servers import Execution, Parameters

from sparktf.topology import NodeId
from sparktf.trainer.parameter_server.shared_updates.rounds import Phase, RoundOutcome, Rounds, RoundVerdict, Who

if TYPE_CHECKING:
    from simulation.roles import Worker

_LOOK_S = 0.25
_PAUSE_S = 0.05


class Together:
    """The coordinator's end: who takes part, and making the updates; see `aggregation.Aggregation`.

    Attributes:
        dropped: See `Rounds`.
    """

    def __init__(
        self,
        process: Process,
        parameters: Parameters,
        wanted: int,
        workers: int,
        is_closed: Callable[[Execution], bool],
    ) -> None:
        """Makes nothing before `open`.

        Args:
            is_closed: Whether an execution is of somebody of whom the driver was told that nothing more counts: what he
                had is handed out again.
        """
        self._is_closed = is_closed
        self._process = process
        self._parameters = parameters
        self._rounds = Rounds(wanted, workers)
        self._changed = SimCondition(process, 0.0)
        self._brought: defaultdict[int, list[tuple[Execution, Ids]]] = defaultdict(list)
        self._error: PeerLostError | None = None
        self.wrong: list[str] = []
        process.spawn(self._run)

    # ---- what the loop needs ----

    @property
    def steps(self) -> int:
        """See `Together`."""
        if self._error is not None:
            raise self._error
        return self._rounds.steps

    @property
    def dropped(self) -> int:
        """Gradients that were computed for nothing."""
        return self._rounds.dropped

    def begin_epoch(self) -> None:
        """See `Together`."""
        self._rounds.begin_epoch()

    def open(self, updates: int | None) -> None:
        """See `Together`."""
        self._rounds.open(updates)

    def close(self) -> None:
        """See `Together`."""
        with self._changed:
            self._rounds.close()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error or self._rounds.phase is Phase.CLOSED)

    def succeed(self, incarnations: Mapping[NodeId, int]) -> None:
        """See `Together`."""
        with self._changed:
            for node, incarnation in incarnations.items():
                self._rounds.succeed(node.index, incarnation)
            self._changed.notify_all()

    # ---- what workers call ----

    def begin(self, caller: Process, who: Who, *, has_rows: bool) -> int:
        """Returns the number of the round to compute a gradient for."""
        self._reach(caller)
        with self._changed:
            number = self._rounds.begin(who, has_rows=has_rows)
            self._changed.notify_all()
        return number

    def enter(self, caller: Process, who: Who, number: int, rows: int) -> bool:
        """Returns whether a gradient goes into a round."""
        self._reach(caller)
        return self._rounds.enter(who, number, rows)

    def bring(self, number: int, execution: Execution, rows: Ids) -> None:
        """Brings a gradient to the parameter servers."""
        self._brought[number].append((execution, rows))

    def outcome(self, caller: Process, who: Who, number: int, *, is_there: bool) -> RoundOutcome:
        """Returns what has become of a gradient."""
        self._reach(caller)
        with self._changed:
            if is_there:
                self._rounds.arrive(who, number)
                self._changed.notify_all()
            return self._rounds.outcome(who, number)

    def _reach(self, caller: Process) -> None:
        caller.sleep(caller.rng.uniform(0.001, 0.02))
        while self._process.frozen and not self._process.dead:
            caller.sleep(_LOOK_S)
        if self._process.dead:
            raise PeerLostError("chief 0")

    # ---- the thread ----

    def _run(self) -> None:
        try:
            while True:
                self._make()
        except PeerLostError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _make(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._rounds.phase in (Phase.FULL, Phase.VOID))
            is_full, (number, count, _) = self._rounds.phase is Phase.FULL, self._rounds.sizes
        self._parameters.reach(self._process)
        self._process.sleep(self._process.rng.uniform(0.01, 0.1))
        brought = self._brought[number]
        if is_full and len(brought) != count:
            self.wrong.append(f"round {number} takes {count} gradients, and has {len(brought)}")
        if is_full:
            late = [execution.worker.process for execution, _ in brought if self._is_closed(execution)]
            self.wrong += [f"{worker} is closed, and has a part in round {number}" for worker in late]
            self._parameters.apply_mean(brought)
        self._brought.clear()
        with self._changed:
            self._rounds.finish()
            self._changed.notify_all()


class Part:
    """A worker's end of one execution; see `aggregated_closure`."""

    def __init__(self, worker: Worker, together: Together, execution: Execution, take: int) -> None:
        """Has not begun."""
        self._worker = worker
        self._process = worker.process
        self._together = together
        self._execution = execution
        self._who = Who(worker.spec.node.index, worker.spec.incarnation, take)
        self._slow = worker.slow

    def train(self, ids: Ids, *, has_rows: bool, batch_size: int) -> int | None:
        """Has gradients of rows go into updates; returns of how many rows, None where it is broken off.

        Raises:
            PeerLostError: coordinator or server are gone.
        """
        number = self._together.begin(self._process, self._who, has_rows=has_rows)
        left, done, execution = self._execution.updates, 0, self._execution
        while left > 0 and done < len(ids) and number >= 0:
            rows = ids[done : done + batch_size]
            self._process.sleep(self._process.rng.uniform(0.05, 0.4) * self._slow)
            if execution.broke_off and execution.stalls_s:
                self._process.sleep(execution.stalls_s)
                execution.stalls_s = 0.0
            if execution.aborted:
                return None
            verdict, number = self._take_part(rows, number)
            if execution.aborted:
                return None
            left, done = left - 1, done + (len(rows) if verdict is RoundVerdict.MADE else 0)
        return done

    def _take_part(self, rows: Ids, number: int) -> RoundOutcome:
        is_in = self._together.enter(self._process, self._who, number, len(rows))
        if is_in:
            self._worker.line.parameters(self._worker.spec.attempt).reach(self._process)
            self._together.bring(number, self._execution, rows)
        outcome = self._together.outcome(self._process, self._who, number, is_there=is_in)
        while outcome.verdict is RoundVerdict.PENDING and not self._execution.aborted:
            self._process.sleep(_PAUSE_S)
            outcome = self._together.outcome(self._process, self._who, number, is_there=False)
        return outcome
