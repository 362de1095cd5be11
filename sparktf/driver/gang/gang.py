"""A gang of nodes: the agents that a site has started, and the current attempt. Knows nothing of Spark."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import suppress

from rich.console import Console

from sparktf.config.job import JobConfig
from sparktf.console.console import Display
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.feeding import Feeders, FeedJob
from sparktf.driver.attempt.health import rhythm_of
from sparktf.driver.attempt.restart import Why
from sparktf.driver.gang.placement import best_nodes
from sparktf.driver.gang.reserved import Reserved, needed
from sparktf.driver.gang.roster import AgentRecord
from sparktf.driver.gang.site import Site, Voice
from sparktf.driver.lifecycle import GANG, GangEvent, GangState, step
from sparktf.driver.plan.plan import Plan
from sparktf.errors import LifecycleError, RunInterruptedError
from sparktf.executor.feeder import FeederSettings
from sparktf.wire.trainer_spec import TrainerSpec


class Gang(Reserved):
    """Reserves nodes at a site and runs attempts on them: from the first training, after its plan, until `close`."""

    def __init__(self, config: JobConfig, site: Site, console: Console) -> None:
        """Starts nothing yet.

        Args:
            config: Of the first training, whose timeouts the agents keep.
            console: Where runs are shown.
        """
        super().__init__(site, rhythm_of(config), config.timeouts)
        self.console = console
        self._state = GangState.EMPTY
        self._attempts = 0
        self._size = 0
        self._chosen: frozenset[int] = frozenset()  # partitions, where there were spares to choose from

    @property
    def attempt(self) -> Attempt | None:
        """The current attempt; None before the first."""
        attempt = self._dispatcher.attempt
        return attempt if isinstance(attempt, Attempt) else None

    # ---- reservation ----

    def suffices(self, config: JobConfig) -> bool:
        """Whether the gang has the nodes that a training needs: true before the first one has reserved any."""
        return self._agents is None or config.shape.nodes <= self._size

    def close(self) -> None:
        """Stops trainers, sends the agents home and ends the control server."""
        self._take(GangEvent.CLOSE)
        super().close()

    def reserve(self, config: JobConfig, plan: Plan, voice: Voice) -> None:
        """Starts the control server and the agents, if they are not there yet.

        Raises:
            LifecycleError: the gang is closed.
            PreflightError: the agents leave no room for the plan's feeders.
        """
        self._take(GangEvent.RESERVE)
        self.site.check_plan(config, plan)
        self.site.ship_code(config)
        if self._agents is not None:
            with suppress(RunInterruptedError):  # the end of agents between two trainings interrupts neither
                self.look_after_agents()
            return
        self._server = self.site.serve(config, self._dispatcher.handlers())
        settings = self._settings(self._server, config.model_module, config.cluster.node_ports, config.cluster.nursery)
        self._agents = self.site.start_agents(config, plan, settings, voice)
        self._size = config.shape.nodes

    def gather(self, config: JobConfig, plan: Plan, display: Display, why: Why) -> list[AgentRecord]:
        """Waits for the gang; returns its agents by partition.

        The first attempt needs all of them within `timeouts.reserve`; a later one goes on with at least
        `cluster.min_workers` when the lost ones do not come back within `timeouts.replace`, for which it waits up to
        `timeouts.reserve` where the cluster took nodes back: it gives them as slowly as the first ones. Of more agents
        than needed, those beside the data are taken, one of each executor if that is enough; others are sent home.

        Raises:
            ReservationError: too few came in time.
            PreflightError: an agent cannot start trainers.
        """
        self._take(GangEvent.GATHER)
        event = GangEvent.GIVEN_UP
        try:
            agents = self._gathered(config, plan, display, why)
            event = GangEvent.GATHERED
        finally:
            self._take(event)
        return agents

    def _gathered(self, config: JobConfig, plan: Plan, display: Display, why: Why) -> list[AgentRecord]:
        shape, wanted = config.shape, config.shape.nodes
        need = needed(shape.nodes, shape.fewest, self._spares(), config.timeouts, why, self.clock.now_s())

        def show(idle: int, left_s: float, now_s: float) -> None:
            display.waiting("waiting for nodes", idle, wanted, left_s, now_s)

        limit = "replace" if why is Why.LOST else "reserve"
        limit_s: float = getattr(config.timeouts, limit)
        return self._choose(self.await_agents(need, limit_s, f"timeouts.{limit}", show), wanted, plan)

    def _spares(self) -> int:
        return self._agents.spares if self._agents is not None else 0

    def _choose(self, agents: list[AgentRecord], need: int, plan: Plan) -> list[AgentRecord]:
        apart = list({agent.executor: agent for agent in reversed(agents)}.values())[::-1]
        agents_of = apart if len(apart) >= need else agents
        hosts = [agent.registration.host for agent in agents_of]
        kept = [agents_of[i] for i in best_nodes(plan.host_nbytes(), hosts, need)]
        if self._agents is not None and self._agents.spares:
            self._agents.spares = 0
            self._chosen = frozenset(agent.registration.partition for agent in kept)
            stay = {agent.id for agent in kept}
            self._send_home([agent for agent in agents if agent.id not in stay])
        return kept

    def _send_home(self, spares: list[AgentRecord]) -> None:
        """Ends agents, and gives back their executors where no other agent is on them."""
        self.roster.dismiss([agent.id for agent in spares])
        used = {agent.executor for agent in self.roster.here()}
        self.site.let_go([agent for agent in spares if agent.executor not in used])

    def begin(self, attempt: Attempt, specs: Sequence[tuple[str, TrainerSpec]]) -> None:
        """Makes an attempt the current one and gives the agents their trainers."""
        self._take(GangEvent.BEGIN)
        with self.roster.changed:
            self._dispatcher.attempt = attempt
            self.roster.start(specs)

    def feed(self, config: JobConfig, plan: Plan, attempt: int, job: FeedJob) -> Feeders:
        """Has Spark feed a stream in an epoch to the nodes of an attempt.

        Raises:
            LifecycleError: there are no agents yet.
        """
        if self._server is None:
            raise LifecycleError("feeders start after the agents")
        patience_s = config.timeouts.driver_lost
        settings = FeederSettings(
            self._server.access(), attempt, job.stream, job.epoch, patience_s, job.turn, job.generation
        )
        return self.site.feed(config, plan, settings, self.wake)

    def end_attempt(self, attempt: Attempt, limit_s: float) -> bool:
        """Stops the trainers and waits until all are gone; returns whether they are."""
        self._take(GangEvent.END)
        event = GangEvent.LEFT
        try:
            if self.stop(attempt, limit_s):
                event = GangEvent.STOPPED
        finally:
            self._take(event)
        return event is GangEvent.STOPPED

    def next_attempt(self, after: int) -> int:
        """Returns an attempt's number: unique in this cluster, and greater than `after`."""
        self._attempts = max(self._attempts, after) + 1
        return self._attempts

    def look_after_agents(self, *, restart: bool = True) -> str | None:
        """See `Reserved`. Sends home spares that came too late to be chosen, which would hold their executors."""
        reason = super().look_after_agents(restart=restart)
        if self._chosen:
            here = {agent.registration.partition: agent for agent in self.roster.here()}
            free = {partition for partition, agent in here.items() if agent.is_free}
            if late := late_spares(self._chosen, here.keys(), free):
                self._send_home([here[partition] for partition in sorted(late)])
        return reason

    def _take(self, event: GangEvent) -> None:
        self._state = step(GANG, self._state, event, "the gang")


def late_spares(chosen: Set[int], here: Set[int], free: Set[int]) -> Set[int]:
    """Returns the partitions of agents that came after the gang was chosen, and that it does not need.

    Args:
        chosen: The gang's partitions; none where there was no choice.
        here: Those of all agents there are.
        free: Those of idle agents.
    """
    return free - chosen if chosen and chosen <= here else frozenset()
