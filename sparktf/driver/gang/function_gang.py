"""A gang that runs functions: reserved, watched and dismissed like one that trains. Knows nothing of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.functions import ATTEMPT, Functions
from sparktf.driver.attempt.health import Outcome
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.gang.reserved import Need, Reserved
from sparktf.driver.gang.roster import AgentRecord
from sparktf.driver.gang.site import AgentJob, Handler, Server, Site
from sparktf.errors import ErrorRecord, LifecycleError, NodeLostError
from sparktf.executor.agent import AgentSettings
from sparktf.knobs import KNOBS
from sparktf.topology import ClusterSpec, NodeId, role_of_job
from sparktf.wire.beats import beats
from sparktf.wire.control import Action
from sparktf.wire.guest import GuestNode
from sparktf.wire.security import ControlAccess
from sparktf.wire.trainer_spec import Function

_SHOWN_NODES = 10


class FunctionGang(Reserved):
    """Runs a function once on each of some nodes: `reserve`, `begin`, wait for its end; `close` in any case.

    The first failure stops all nodes, and is raised by the current and the next call.
    """

    def __init__(self, site: Site, count: int, timeouts: TimeoutsConfig) -> None:
        """Starts nothing yet."""
        super().__init__(
            site, beats(count, heartbeat_s=timeouts.heartbeat, driver_lost_s=timeouts.driver_lost), timeouts
        )
        self._count = count
        self._functions: Functions | None = None
        self._closed = False

    @property
    def functions(self) -> Functions:
        """Their state. Raises `LifecycleError` before they have begun."""
        if self._functions is None:
            raise LifecycleError("functions begin after their nodes are reserved")
        return self._functions

    @property
    def access(self) -> ControlAccess:
        """The address and credentials with which a feeder calls the driver. Raises `LifecycleError` without nodes."""
        if self._server is None:
            raise LifecycleError("feeders start after the agents")
        return self._server.access()

    @property
    def cause(self) -> ErrorRecord | None:
        """The first failure, if any."""
        return None if self._functions is None else self._functions.cause

    @property
    def unreturned(self) -> str:
        """The nodes that have not returned, in words; the roster's lock is held."""
        left = self.functions.unreturned
        nodes = [f"{trainer.node} on {trainer.host}" for trainer in left[:_SHOWN_NODES]]
        if len(left) > _SHOWN_NODES:
            nodes.append(f"{len(left) - _SHOWN_NODES} more")
        return f"{', '.join(nodes)} {'has' if len(left) == 1 else 'have'} not returned"

    @property
    def is_closed(self) -> bool:
        """Whether all was stopped, and the executors given back."""
        return self._closed

    # ---- the beginning ----

    def reserve(
        self,
        module: str,
        reserve_s: float,
        serve: Callable[[Mapping[Action, Handler]], Server],
        start: Callable[[AgentSettings], AgentJob],
    ) -> list[AgentRecord]:
        """Has agents start and waits for all of them; returns them by partition.

        Args:
            module: Of the function: must be importable where the agents are.
            serve: Starts the server for the nodes' messages; `start` starts the agents.

        Raises:
            ReservationError: they did not come in time.
            PreflightError: one cannot start trainers.
        """
        self._server = serve(self._dispatcher.handlers())
        self._agents = start(self._settings(self._server, module, "0", "off"))
        need = Need(self._count, self._count, 0, self.clock.now_s() + reserve_s)
        return self.await_agents(need, reserve_s, "reservation_timeout", lambda idle, left_s, now_s: None)

    def begin(
        self,
        function: str,
        guests: Sequence[GuestNode],
        agents: Sequence[AgentRecord],
        logs: str,
    ) -> None:
        """Has each agent run the function as the node of its place, and returns when all of them have begun.

        Args:
            logs: Folder that their logs go below.

        Raises:
            SparkTFError: one failed at once.
        """
        nodes = [NodeId(role=role_of_job(guest.job), index=guest.index) for guest in guests]
        cluster = ClusterSpec.at({node: agent.address for node, agent in zip(nodes, agents, strict=True)})
        hadoop, run_id = self.site.file_systems.hadoop.for_nodes(), self.site.application.id
        specs, trainers, now_s = [], [], self.clock.now_s()
        for node, guest, agent in zip(nodes, guests, agents, strict=True):
            host, jvm = agent.registration.host, agent.registration.jvm
            trainers.append(Trainer(node, agent.id, host, now_s, now_s, jvm=jvm))
            spec = Function(
                run_id=run_id,
                run_root=logs,
                attempt=ATTEMPT,
                node=node,
                cluster=cluster,
                hadoop=hadoop,
                function=function,
                guest=guest,
                timeouts=self._timeouts,
            )
            specs.append((agent.id, spec))
        of = dict(zip(nodes, guests, strict=True))
        clock = self.site.clock
        made = Functions(of, trainers, self._timeouts, self.roster.rhythm, self.clock.now_s, clock.wall_s)
        with self.roster.changed:
            self._functions = self._dispatcher.attempt = made
            self.roster.start(specs)
        self.clock.beside("functions", self._watched)
        self.await_until(lambda: made.is_ready)

    # ---- watching ----

    def _watched(self) -> None:
        while not self._closed:
            self.look()
            self.tick()

    def look(self) -> None:
        """Notices losses, and stops all nodes at the first failure."""
        functions = self.functions
        self.look_after_agents(restart=False)
        self.record_losses(functions)
        with self.roster.changed:
            if functions.look() is Outcome.FAILED and not functions.is_stopped:
                functions.stop()
                self.roster.stop_trainers()
                self.roster.changed.notify_all()

    def check(self) -> None:
        """Raises the first failure, if any."""
        if self.cause is not None:
            error = self.cause.to_error()
            if self.cause.traceback:
                error.add_note(self.cause.traceback)
            raise error

    def await_until(self, done: Callable[[], bool], limit_s: float | None = None) -> None:
        """Waits until `done`.

        Raises:
            SparkTFError: a node failed before.
            NodeLostError: the time is over.
        """
        deadline_s = None if limit_s is None else self.clock.now_s() + limit_s
        with self.roster.changed:
            while not done():
                self.check()
                if deadline_s is not None and self.clock.now_s() > deadline_s:
                    raise NodeLostError(f"{self.unreturned} within {limit_s:g} s")
                self.clock.wait(self.roster.changed, KNOBS.tick_s)
        self.check()

    def close(self) -> None:
        """Stops all that runs, and gives the executors back."""
        if self._closed:
            return
        if self._functions is not None:
            self.roster.stop_trainers()
            self.stop(self._functions, self._home_s)
        self._closed = True
        super().close()
