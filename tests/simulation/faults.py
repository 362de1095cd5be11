"""What goes wrong in a seed, and when: every decision has a name, so that a failing seed can be shrunk."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from simulation.hub import Hub

RATES: Mapping[str, tuple[float, float]] = {
    "storage-fails": (0.002, 0.03),
    "storage-loses-answers": (0.002, 0.03),
    "storage-hangs": (0.001, 0.01),
    "storage-slow": (0.01, 0.1),
    "upload-torn": (0.02, 0.3),
    "checkpoint-rots": (0.05, 0.3),
    "disk-full": (0.3, 1.0),
    "message-lost": (0.002, 0.05),
    "message-late": (0.002, 0.05),
    "message-twice": (0.01, 0.2),
    "node-dies": (0.1, 0.7),
    "node-freezes": (0.1, 0.7),
    "trainer-dies": (0.1, 0.7),
    "trainer-freezes": (0.1, 0.7),
    "driver-killed": (0.002, 0.02),
    "driver-frozen": (0.002, 0.02),
    "driver-twice": (0.3, 1.0),
    "clocks-differ": (1.0, 1.0),
    "model-raises": (0.1, 0.4),
}
"""Kind -> between which chances a seed draws one: per call, per message, or per node and chance to act."""

FEED_RATES: Mapping[str, tuple[float, float]] = {
    "feeder-dies": (0.01, 0.15),
    "feeder-late": (0.02, 0.3),
    "feeder-twice": (0.1, 0.8),
    "feeder-again": (0.1, 0.6),
    "channel-breaks": (0.005, 0.1),
    "rows-vanish": (0.005, 0.1),
}
"""The same of runs whose rows Spark feeds: per moment of a feeder's life, per feeder, per call, and per batch."""

ASYNC_RATES: Mapping[str, tuple[float, float]] = {
    "execution-breaks": (0.01, 0.2),
    "result-late": (0.02, 0.3),
    "caller-dies": (0.002, 0.03),
    "caller-freezes": (0.002, 0.03),
    "server-dies": (0.0002, 0.004),
    "coordinator-dies": (0.0005, 0.01),
    "worker-dies": (0.003, 0.05),
    "successor-dies": (0.1, 0.5),
    "answer-late": (0.002, 0.03),
    "voice-of-the-dead": (0.1, 0.6),
}
"""The same of runs under parameter servers: per execution, per result, per call of a trainer, of a server and of the
coordinator, per lease and execution of a worker, per successor, per answer, and for each kind of message of somebody
who is gone."""

SYNC_RATES: Mapping[str, tuple[float, float]] = {"link-cut": (0.05, 0.5)}
"""The same of synchronous runs: per trainer, of its link to the next one."""

EVALUATOR_RATES: Mapping[str, tuple[float, float]] = {
    "evaluator-dies": (0.01, 0.4),
    **{kind: ASYNC_RATES[kind] for kind in ("caller-dies", "successor-dies", "answer-late", "voice-of-the-dead")},
}
"""The same of runs with an evaluator: per call of it."""

AGENT_RATES: Mapping[str, tuple[float, float]] = {"agent-away": (0.2, 0.9)}
"""The same of runs that go on without some workers: per agent that is gone, whose place somebody takes late."""

DRIVER_RATES: Mapping[str, tuple[float, float]] = {"driver-pauses": (0.3, 1.0)}
"""The same of all runs: per driver. Its nodes are well meanwhile, and none of them is to be lost for it."""

NIGHT_RATES: Mapping[str, tuple[float, float]] = {
    "other-killed": (0.005, 0.05),
    "other-frozen": (0.005, 0.05),
    "night-killed": (0.01, 0.1),
    "night-frozen": (0.01, 0.1),
}
"""The same of runs that publish: per call of somebody else who changes the published models, and of the run's driver
on these, and on its row of the history."""

ASKED_RATES: Mapping[str, tuple[float, float]] = {"node-preempted": (0.5, 1.0)}
"""The same of seeds that ask for it: per node. Whatever else goes wrong with one would cover for it."""

LOSSES = frozenset(
    (
        "evaluator-dies",
        "agent-away",
        "worker-dies",
        "successor-dies",
        "execution-breaks",
        "result-late",
        "message-twice",
        "voice-of-the-dead",
    )
)
"""Of every fourth seed under parameter servers nothing else: training goes on through all of it."""

_ON = 0.3
_SOME = 0.05


class Struck(NamedTuple):
    """A fault that happened."""

    time_s: float
    name: str
    what: str


class Faults:
    """Which of a seed's possible faults happen.

    Attributes:
        kinds: The kinds that are on.
        schedule: What happened, in order.
        until_s: From then on nothing goes wrong.
    """

    def __init__(
        self,
        hub: Hub,
        seed: int,
        *,
        until_s: float,
        is_fed: bool,
        is_async: bool = False,
        is_evaluated: bool = False,
        is_nightly: bool = False,
        is_needing: bool = False,
        kinds: frozenset[str] | None = None,
        dropped: frozenset[str],
    ) -> None:
        """Draws the kinds of a seed, unless they are given.

        Args:
            is_fed: Spark feeds the rows; `is_async`: parameter servers hold the weights; `is_evaluated`: an evaluator
                reads what is committed; `is_nightly`: the model is published; `is_needing`: a gang that goes on without
                lost members needs more than one.
            dropped: Faults by name that do not happen, whatever is drawn.
        """
        chance = random.Random(f"{seed} faults")
        drawn = frozenset(kind for kind in RATES if chance.random() < _ON)
        rates = {kind: chance.uniform(*RATES[kind]) for kind in RATES}
        of_these = {"driver": DRIVER_RATES}
        of_these |= {"evaluator": EVALUATOR_RATES} if is_evaluated else {}
        of_these |= {"night": NIGHT_RATES} if is_nightly else {}
        of_these |= {"feed": FEED_RATES} if is_fed else {}
        of_these |= {"feed": ASYNC_RATES} if is_async else {"link": SYNC_RATES}
        of_these |= {"agent": AGENT_RATES} if is_async or is_needing else {}
        for name, more in of_these.items():
            others = random.Random(f"{seed} {name} faults")
            drawn |= frozenset(kind for kind in more if others.random() < _ON)
            rates |= {kind: others.uniform(*more[kind]) for kind in more}
        rates |= {kind: chance.uniform(*ASKED_RATES[kind]) for kind in sorted(ASKED_RATES.keys() & (kinds or ()))}
        if is_async and seed % 4 == 3:
            drawn = LOSSES
        self.kinds = (drawn if chance.random() > _SOME else frozenset()) if kinds is None else kinds
        self.schedule: list[Struck] = []
        self.until_s = until_s
        self._hub = hub
        self._seed = seed
        self._rates = {kind: rates[kind] for kind in self.kinds if kind in rates}
        self._chances = {kind: random.Random(f"{seed} {kind}") for kind in rates}
        self._asked: Counter[str] = Counter()
        self._dropped = dropped

    def strike(self, kind: str, what: str, *, weight: float = 1.0) -> random.Random | None:
        """Returns chance for the details of a fault that happens now, None if none does."""
        if kind not in self._rates:
            return None
        self._asked[kind] += 1
        if self._chances[kind].random() >= self._rates[kind] * weight or self._hub.now >= self.until_s:
            return None
        name = f"{kind}#{self._asked[kind]}"
        if name in self._dropped:
            return None
        self.schedule.append(Struck(self._hub.now, name, what))
        return random.Random(f"{self._seed} {name}")

    def describe(self) -> str:
        """Returns the schedule, a line for each fault."""
        return "\n".join(f"  {s.time_s:9.3f} s  {s.name:24} {s.what}" for s in self.schedule)
