"""The course of one attempt for the report: a bounded number of samples, however long it takes.

It looks once a second at first. When there are too many samples it drops every second one, and looks half as often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparktf.driver.attempt.members import Members
from sparktf.driver.attempt.rows.accounting import EpochAccount, MadeByWorker
from sparktf.results.events import Samples
from sparktf.results.usage import Made, Staleness, Usage
from sparktf.topology import NodeId

_MOST = 200
"""The most samples kept."""
_LEAST = 20
_MOST_ROWS = 20_000
"""Samples times nodes: hundreds of nodes have fewer samples, but at least `_LEAST`."""

_FIRST_TOLD_S = 60.0
_LATER = 1.5
"""The course is emitted after a minute, and then each time the attempt's age has grown by this factor."""


@dataclass(slots=True)
class AttemptCourse:
    """The caller calls `look` often, under the roster's lock, and emits the samples when `is_due`."""

    began_s: float
    _seconds: list[float] = field(default_factory=list)
    _steps: list[int] = field(default_factory=list)
    _losses: list[float | None] = field(default_factory=list)
    _rows: list[dict[NodeId, int]] = field(default_factory=list)
    _every_s: float = 1.0
    _next_s: float = 0.0
    _told_s: float = _FIRST_TOLD_S
    _past: dict[NodeId, int] = field(default_factory=dict)
    _closed: set[int] = field(default_factory=set)

    def look(
        self, now_s: float, members: Members, epochs: Mapping[int, EpochAccount], *, is_last: bool = False
    ) -> None:
        """Takes a sample if one is due, once there is an update; if `is_last`, also another one of the same update."""
        at_s = now_s - self.began_s
        if at_s < self._next_s and not is_last:
            return
        front = max((t.progress for t in members.values()), key=lambda p: (p.epoch, p.step))
        is_known = bool(self._steps) and front.step == self._steps[-1]
        if front.phase == "starting" or (is_known and not is_last):
            return
        if is_known:
            for series in self._all:
                series.pop()
        self._seconds.append(at_s)
        self._steps.append(front.step)
        self._losses.append(front.loss)
        self._rows.append(self._count(members, epochs))
        if len(self._seconds) > max(_LEAST, min(_MOST, _MOST_ROWS // len(members))):
            for series in self._all:
                del series[1::2]
            self._every_s *= 2
        self._next_s = at_s + self._every_s

    def is_due(self, now_s: float) -> bool:
        """Whether the samples are to be emitted now; they then are not due for a while."""
        at_s = now_s - self.began_s
        if at_s < self._told_s or not self._seconds:
            return False
        self._told_s = at_s * _LATER
        return True

    def samples(self) -> Samples:
        """Returns the samples so far."""
        last = self._rows[-1] if self._rows else {}
        return Samples(
            seconds=tuple(round(at_s, 3) for at_s in self._seconds),
            steps=tuple(self._steps),
            losses=tuple(self._losses),
            rows={str(node): tuple(row.get(node, 0) for row in self._rows) for node, rows in last.items() if rows},
        )

    @property
    def _all(self) -> tuple[list[Any], ...]:
        return (self._seconds, self._steps, self._losses, self._rows)

    def _count(self, members: Members, epochs: Mapping[int, EpochAccount]) -> dict[NodeId, int]:
        """Returns the rows that each node has trained. Final counts of an epoch are added up once."""
        final = [a for epoch, a in epochs.items() if a.is_reported and epoch not in self._closed]
        for account in final:
            self._closed.add(account.epoch)
            for node in members:
                self._past[node] = self._past.get(node, 0) + account.rows_of(node)
        rows = {node: self._past.get(node, 0) for node in members}
        for account in (a for epoch, a in epochs.items() if epoch not in self._closed):
            for node in members:
                rows[node] += account.rows_of(node)
        for node, trainer in members.items():
            account_of_now = epochs.get(trainer.progress.epoch)
            if account_of_now is None or not account_of_now.knows(node):
                rows[node] += trainer.progress.rows_trained
        return rows


def made_by(accounts: Iterable[EpochAccount], members: Members) -> dict[NodeId, Made]:
    """Returns the training of each worker that trains by itself, by the accounts of the attempt's epochs."""
    found: dict[NodeId, MadeByWorker] = {}
    for receipts in [account.receipts for account in accounts if account.receipts]:
        for node, (steps, rows) in receipts.made.items():
            before = found.get(node, MadeByWorker())
            found[node] = MadeByWorker(before.steps + steps, before.rows + rows)
    return {node: _made(trained, members[node].usage or Usage()) for node, trained in found.items()}


def _made(trained: MadeByWorker, usage: Usage) -> Made:
    seconds = usage.work.seconds if usage.work is not None else 0.0
    steps_s = trained.steps / seconds if seconds else 0.0
    return Made(steps=trained.steps, rows=trained.rows, steps_s=steps_s, staleness=Staleness.of(usage.staleness))
