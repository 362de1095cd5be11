"""What an attempt's result tells of workers that train each for itself."""

from __future__ import annotations

from collections.abc import Iterable

from sparktf.driver.attempt.members import Members
from sparktf.driver.attempt.rows.accounting import EpochAccount, MadeByWorker
from sparktf.results.usage import Made, Staleness, Usage
from sparktf.topology import NodeId


def made_by(accounts: Iterable[EpochAccount], members: Members) -> dict[NodeId, Made]:
    """Returns what each of them has trained, by the accounts of the attempt's epochs."""
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
