"""Where agents run and feeders come from, as the gang sees it: a Spark application, or the simulator of the tests.

Nothing here says how; a simulated site hands messages to the gang's handlers itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sparktf.clock import Clock
from sparktf.config.job import JobConfig
from sparktf.driver.attempt.event_count import EventCount
from sparktf.driver.attempt.feeding import Feeders
from sparktf.driver.gang.roster import AgentRecord, ExecutorFacts
from sparktf.driver.plan.plan import Plan
from sparktf.executor.agent import AgentSettings
from sparktf.executor.feeder import FeederSettings
from sparktf.message import Message
from sparktf.results.result import Application
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.wire.control import Action
from sparktf.wire.security import ControlAccess

Put = Callable[[str, bytes], None]
"""Writes a small file of the run, as its owner: `Fence.put`."""


class Later(NamedTuple):
    """Answers that may not be known yet: a server that can wait answers once more when something has changed.

    Thousands of nodes may ask at once. Each asks again after `KNOBS.regroup_s`, so that nothing rests on the wait.
    """

    is_known: Callable[[Any], bool]  # Of an answer
    changes: Callable[[], EventCount]  # After which it may be another one


class Handler(NamedTuple):
    """Answers one action; from any thread."""

    request: type[Message]
    answer: Callable[[Any], Message]
    later: Later | None = None


class Server(Protocol):
    """The server through which nodes reach the handlers."""

    def access(self) -> ControlAccess:
        """Returns the address and credentials with which a node calls it."""

    def withdraw(self) -> None:
        """Takes its address away, before `shutdown`."""

    def shutdown(self) -> None:
        """Ends it; waits for calls under way, which may take long."""


class AgentJob(Protocol):
    """The job that runs the agents."""

    spares: int  # Agents that are only there to choose from; 0 once chosen

    def ended(self) -> str | None:
        """Returns why all agents have been given up at once, None while they have not."""

    def restart(self) -> None:
        """Starts the agents again. Raises `NodeLostError` if that has been tried too often."""

    def close(self, wait_s: float) -> None:
        """Waits for dismissed agents to end, then ends all others."""


class Voice(NamedTuple):
    """Takes a run's lines of progress, and its warnings, which its result mentions."""

    say: Callable[[str], None]
    warn: Callable[[str], None]


class Site(Protocol):
    """Where agents run and feeders come from."""

    @property
    def place(self) -> str:
        """The site's name for people: Spark's master."""

    @property
    def one_machine(self) -> bool:
        """Whether all nodes are on this machine."""

    @property
    def duplicates_wait(self) -> bool:
        """Whether a second agent of a partition may be started beside a living one; see `Roster`."""

    @property
    def application(self) -> Application:
        """The Spark application that holds the agents."""

    @property
    def clock(self) -> Clock:
        """Time and threads of the driver."""

    @property
    def file_systems(self) -> FileSystems:
        """The driver's only file systems, for data and runs; credentials included."""

    def preflight(self, config: JobConfig, voice: Voice) -> None:
        """Refuses a configuration that can never run here. Raises `PreflightError`."""

    def is_loop(self, config: JobConfig) -> bool | None:
        """Whether the model's function is a `train(node)`; None where that cannot be told without importing it."""

    def plan(self, config: JobConfig, voice: Voice) -> Plan:
        """Plans the run's input. Raises as `plan_source`."""

    def prepare(self, config: JobConfig, plan: Plan, storage: Storage, path: str, put: Put) -> dict[str, Any]:
        """Returns the model's assets, kept at `path`; they are made of the rows of the plan."""

    def ship_code(self, config: JobConfig) -> None:
        """Brings the model's code to the agents."""

    def check_plan(self, config: JobConfig, plan: Plan) -> None:
        """Refuses a plan for which the agents, present or to come, leave no room.

        Raises:
            PreflightError: Spark is to feed the nodes, and no slot is left for that.
        """

    def serve(self, config: JobConfig, handlers: Mapping[Action, Handler]) -> Server:
        """Starts the server for messages of agents and trainers."""

    def start_agents(self, config: JobConfig, plan: Plan, settings: AgentSettings, voice: Voice) -> AgentJob:
        """Starts at least as many agents as the gang has nodes, beside the data if possible."""

    def feed(self, config: JobConfig, plan: Plan, settings: FeederSettings, on_end: Callable[[], None]) -> Feeders:
        """Has Spark feed a stream in an epoch to the nodes in `settings`; calls `on_end` from any thread at the end."""

    def let_go(self, agents: Sequence[AgentRecord]) -> None:
        """Releases the executors of dismissed agents, where possible, without waiting."""

    def facts(self, agents: Sequence[AgentRecord]) -> list[ExecutorFacts]:
        """Returns the known facts about each agent's executor."""
