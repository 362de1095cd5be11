"""A gang whose worker is lost while its attempt goes on: another trainer takes the place, at its own address."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, pretend_config
from specs import trainer_spec

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.health import Outcome
from sparktf.driver.attempt.saves import Start
from sparktf.driver.gang.handlers import Dispatcher
from sparktf.driver.gang.replacements import Replacements
from sparktf.driver.gang.roster import ExecutorFacts
from sparktf.driver.gang.seating import attempt_result, seat_agents
from sparktf.errors import PreflightError, RefusedError
from sparktf.message import Message
from sparktf.results.result import Application
from sparktf.storage.local import LocalStorage
from sparktf.topology import NodeId, Role
from sparktf.wire.control import (
    Action,
    AgentHeartbeat,
    Heartbeat,
    Order,
    Orders,
    Progress,
    Ready,
    Registration,
    TrainerExited,
)
from sparktf.wire.trainer_spec import Training

WORKERS = [NodeId(role=Role.WORKER, index=i) for i in range(2)]


class Agents:
    """A coordinator, a parameter server and two workers on agents a0 to a3, of hosts h0 to h3, all of them ready.

    Attributes:
        running: What each agent runs, by its id.
    """

    def __init__(self, folder: Path) -> None:
        lake = write_lake(folder / "lake", [20])
        cluster = {"strategy": "parameter_server", "workers": 2, "ps": 1, "threads": 3}
        self.config = pretend_config(
            lake, folder / "runs", cluster=cluster, timeouts={"heartbeat": 15, "replace": 30, "progress": 900}
        )
        plan = plan_lake(lake)
        driver = PretendDriver(Application("app"), self.config, plan)
        self.site, self.gang, self.clock = driver.site, driver.gang, driver.site.clock
        self.clock.passed = lambda: None
        self.dispatcher = Dispatcher(self.gang.roster)
        self.handlers = self.dispatcher.handlers()
        self._numbers = itertools.count(1)
        self.running: dict[str, Training] = {}
        for i in range(4):
            self.register(f"a{i}", i)
        shape = self.config.cluster.shape
        here, storage = self.gang.roster.here(), LocalStorage()
        seating = seat_agents(here, shape, {}, storage, "", lambda path, content: None, first=True, replay=False)
        leader = self.leader = trainer_spec(node=seating.cluster.leader, cluster=seating.cluster, config=self.config)
        trainers = seating.trainers(self.clock.now_s())
        self.attempt = Attempt(
            1, self.config, plan, Start(), trainers, self.clock.now_s, self.clock.wall_s, hosts=seating.dealt
        )
        self.dispatcher.attempt = self.attempt
        self.gang.roster.start(seating.specs(leader))
        self.replacements = Replacements(self.gang, self.attempt, seating, leader)
        for agent in ("a0", "a1", "a2", "a3"):
            self.take(agent)

    def say(self, action: Action, message: Message) -> Any:
        return self.handlers[action].answer(message)

    def register(self, agent: str, partition: int, host: str = "", **fields: Any) -> None:
        host = host or f"h{partition}"
        here = {"agent": agent, "partition": partition, "host": host, "jvm": agent, "address": f"{host}:1"}
        self.say(Action.REGISTER, Registration(**{**here, "versions": {}, "processors": 4, **fields}))

    def beat(self, agent: str, address: str = "") -> Orders:
        running = self.running.get(agent)
        address = address or f"h{agent[1]}:1"
        beat = AgentHeartbeat(
            agent=agent,
            number=next(self._numbers),
            address=address,
            trainer=None if running is None else running.trainer,
        )
        orders: Orders = self.say(Action.AGENT_HEARTBEAT, beat)
        return orders

    def take(self, agent: str, address: str = "") -> Training:
        """The agent is told to start a trainer, and that is ready."""
        orders = self.beat(agent, address)
        assert orders.order is Order.START
        assert isinstance(orders.trainer, Training)
        self.running[agent] = orders.trainer
        assert self.beat(agent, address).order is Order.WAIT
        ready = Ready(**orders.trainer.sender, replicas=1, keras="keras", versions={}, weights=1)
        self.say(Action.READY, ready)
        return orders.trainer

    def agent_of(self, node: NodeId) -> str:
        return next(agent for agent, spec in self.running.items() if spec.node == node)

    def dies(self, node: NodeId) -> str:
        """A node's process is killed, says its agent, which then holds another port."""
        agent = self.agent_of(node)
        spec = self.running.pop(agent)
        exited = TrainerExited(agent=agent, **spec.sender, exit_code=-9, time_s=0.0, log="l", log_tail="")
        with suppress(RefusedError):  # it counted as lost before
            self.say(Action.TRAINER_EXITED, exited)
        return agent

    def fill(self) -> list[str]:
        return self.replacements.fill()

    def passes(self, seconds: float, *silent: str) -> None:
        """Time passes, and all but some agents and their trainers are heard."""
        for _ in range(int(seconds)):
            self.clock.wait(self.gang.roster.changed, 1.0)
            for agent, spec in self.running.items():
                if agent not in silent:
                    self.beat(agent)
                    self.say(Action.HEARTBEAT, Heartbeat(**spec.sender, progress=Progress()))
            self.outcome()

    def outcome(self) -> Outcome:
        with self.gang.roster.changed:
            return self.attempt.apply(self.attempt.outcome())


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    return Agents(tmp_path)


def test_a_worker_that_is_killed_gets_a_trainer_in_this_attempt_on_its_own_agent_at_the_new_address(
    agents: Agents,
) -> None:
    assert agents.fill() == []
    agent = agents.dies(WORKERS[1])
    assert agents.fill() == [], "its agent has not said yet where another one may begin"
    assert agents.beat(agent, "h9:7").order is Order.WAIT
    assert agents.fill() == [f"worker 1 gets a new trainer on h{agent[1]}"]
    assert agents.fill() == []

    spec = agents.take(agent, "h9:7")

    before = agents.running[agents.agent_of(WORKERS[0])]
    assert (spec.attempt, spec.node, spec.incarnation) == (1, WORKERS[1], 1)
    assert spec.cluster == before.cluster.moved(WORKERS[1], "h9:7")
    assert spec == before.model_copy(update={"node": WORKERS[1], "incarnation": 1, "cluster": spec.cluster})
    assert agents.outcome() is Outcome.RUNNING
    assert not agents.attempt.vacant()


def test_a_second_loss_knows_where_the_first_has_moved(agents: Agents) -> None:
    for node, address in ((WORKERS[0], "x:1"), (WORKERS[1], "y:1"), (WORKERS[0], "z:1")):
        agent = agents.dies(node)
        agents.beat(agent, address)
        agents.fill()
        spec = agents.take(agent, address)
    assert spec.cluster.worker == ("z:1", "y:1")
    assert spec.incarnation == 2
    losses = attempt_result(agents.attempt, (), agents.leader, 1.0, server_nbytes=2**30).losses
    assert [(loss.node, loss.exit_code) for loss in losses] == [("worker 0", -9), ("worker 1", -9), ("worker 0", -9)]


def test_two_workers_lost_at_once_each_get_one(agents: Agents) -> None:
    lost = [agents.dies(node) for node in WORKERS]
    agents.beat(lost[1])
    assert len(agents.fill()) == 1, "as far as there are agents"
    agents.beat(lost[0])
    assert len(agents.fill()) == 1
    assert {agents.take(agent).node for agent in lost} == set(WORKERS)


def test_an_executor_that_is_gone_is_followed_by_the_one_that_spark_starts(agents: Agents) -> None:
    agent, host = agents.agent_of(WORKERS[0]), f"h{agents.agent_of(WORKERS[1])[1]}"
    agents.passes(5)
    del agents.running[agent]
    agents.register("b9", int(agent[1]), host=host, address=f"{host}:2", task=9)
    for lost in agents.gang.roster.sweep():
        with agents.gang.roster.changed:
            agents.attempt.agent_lost(lost.agent.id, lost.in_words())
    assert agents.fill() == [f"worker 0 gets a new trainer on {host}"]

    spec = agents.take("b9", f"{host}:2")

    assert (spec.node, spec.incarnation, spec.cluster.worker[0]) == (WORKERS[0], 1, f"{host}:2")
    nodes = agents.replacements.seating.results(agents.attempt, spec, [ExecutorFacts()] * 4, located=False)
    assert [(node.host, node.threads) for node in nodes if node.node == "worker 0"] == [(host, 3)]
    assert spec.threads == 3


def test_nobody_takes_a_place_on_an_executor_that_spark_has_given_up(agents: Agents) -> None:
    agent = agents.dies(WORKERS[0])
    agents.beat(agent)
    agents.site.removed[agent] = "Container killed on request"
    assert agents.fill() == []
    (lost,) = agents.gang.roster.sweep()
    assert (lost.agent.id, lost.reason) == (agent, "Container killed on request")
    assert agents.beat(agent).order is Order.REJOIN
    agents.register("b9", int(agent[1]), host="h9", task=9)
    assert agents.fill() == ["worker 0 gets a new trainer on h9"]
    assert agents.take("b9").incarnation == 1


def test_an_agent_that_was_killed_is_told_as_that_and_a_removed_executor_as_one(agents: Agents) -> None:
    killed, elsewhere, removed = (agents.agent_of(node) for node in (*WORKERS, NodeId(role=Role.PS, index=0)))
    agents.register("b1", int(killed[1]), jvm=killed, task=8)
    agents.register("b2", int(elsewhere[1]), host="h9", task=9)
    agents.gang.roster.lose(removed, "it was removed")
    told = [lost.in_words() for lost in agents.gang.roster.sweep()]
    assert told[:2] == [
        "lost its agent: Spark started it again on the same executor, where its process had ended",
        "lost its agent: Spark started it again elsewhere",
    ]


def test_a_worker_that_freezes_is_ended_by_its_agent_before_another_takes_its_place(agents: Agents) -> None:
    agent = agents.agent_of(WORKERS[1])
    spec = agents.running[agent]
    for _ in range(20):
        agents.passes(1, agent)
        agents.beat(agent)
    assert agents.fill() == []
    assert agents.beat(agent).order is Order.STOP
    with pytest.raises(RefusedError, match="worker 1 of attempt 1 counts as lost"):
        agents.say(Action.HEARTBEAT, Heartbeat(**spec.sender, progress=Progress()))
    agents.dies(WORKERS[1])
    agents.beat(agent)
    assert len(agents.fill()) == 1
    assert agents.take(agent).incarnation == 1
    assert agents.outcome() is Outcome.RUNNING
    others = [other for other in agents.running if other != agent]
    assert [agents.beat(other).order for other in others] == [Order.WAIT] * 3


def test_an_attempt_whose_worker_nobody_follows_goes_on_and_takes_whoever_comes_late(agents: Agents) -> None:
    agent = agents.dies(WORKERS[1])
    agents.passes(33)
    assert agents.outcome() is Outcome.RUNNING
    [loss] = agents.attempt.losses.records
    assert loss.message.endswith("exited with -9 (SIGKILL); it was not replaced within timeouts.replace: 30 s")
    assert agents.fill() == []

    agents.register("b9", int(agent[1]), host="h9", task=9)
    assert agents.fill() == ["worker 1 gets a new trainer on h9"]
    assert agents.take("b9").incarnation == 1


def test_a_place_without_a_stand_in_is_filled_before_one_that_has_waited_for_longer(agents: Agents) -> None:
    agents.dies(WORKERS[1])
    agents.passes(33)
    agent = agents.dies(WORKERS[0])
    agents.beat(agent)
    assert agents.fill() == [f"worker 0 gets a new trainer on h{agent[1]}"]


def test_an_attempt_whose_workers_nobody_follows_ends_with_what_was_lost(agents: Agents) -> None:
    for node in WORKERS:
        agents.dies(node)
    agents.passes(29)
    assert agents.outcome() is Outcome.RUNNING
    agents.passes(4)
    assert agents.outcome() is Outcome.FAILED
    [failure] = agents.attempt.failures
    late = "exited with -9 (SIGKILL); it was not replaced within timeouts.replace: 30 s"
    assert failure.message.endswith(f"{late}, and no worker is left")
    assert agents.fill() == []


def test_a_node_whose_trainers_train_nothing_again_and_again_gets_no_other(agents: Agents) -> None:
    for _ in range(3):
        agent = agents.dies(WORKERS[0])
        agents.beat(agent)
        assert len(agents.fill()) == 1
        agents.take(agent)
    agents.beat(agents.dies(WORKERS[0]))
    assert agents.fill() == []
    assert agents.outcome() is Outcome.RUNNING


def test_an_agent_that_cannot_start_trainers_ends_the_run_with_what_is_wrong_there(agents: Agents) -> None:
    agent = agents.agent_of(WORKERS[0])
    del agents.running[agent]
    agents.register("b9", int(agent[1]), host="h9", task=9, problems=("tensorflow is not installed",))
    for lost in agents.gang.roster.sweep():
        agents.attempt.agent_lost(lost.agent.id, lost.in_words())
    with pytest.raises(PreflightError, match="on executor h9: tensorflow is not installed"):
        agents.fill()


@pytest.mark.parametrize("node", [NodeId(role=Role.PS, index=0), NodeId(role=Role.CHIEF, index=0)], ids=str)
def test_nobody_follows_a_node_whose_state_cannot_be_had_again(agents: Agents, node: NodeId) -> None:
    agents.beat(agents.dies(node))
    assert agents.fill() == []
    agents.passes(2)
    assert agents.outcome() is Outcome.FAILED
