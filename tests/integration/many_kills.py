"""A gang of three that loses its workers again and again, each by another of its processes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
from integration.processes import executor_of
from integration.watch import Held, Watch

from sparktf.results.result import RunResult

KINDS = ("trainer", "agent", "executor")
ROWS = 600  # of `rows.write_rows` by default


def sections(watch: Watch, kills: int) -> dict[str, Any]:
    """Returns the sections of a job over the rows of `rows.write_rows` whose workers are to be lost so many times."""
    return {
        "params": {**watch.params(hold_at=3), "rows": ROWS + 1},
        "cluster": {"workers": 3},
        "train": {"batch_size": 30, "epochs": _epochs(kills), "max_attempts": 1},
    }


def lose_workers(watch: Watch, kills: int) -> None:
    """Kills one worker after the other of a gang that trains, the leader in its turn; waits for each successor."""
    seen = watch.held(3)
    members = {held.index: held for held in seen}
    watch.hold_by_one()
    kinds: Counter[str] = Counter()
    for number in range(kills):
        victim = members[number % 3]
        kinds[_kill(KINDS[number % len(KINDS)], victim, [held for held in members.values() if held != victim])] += 1
        joined = watch.joined(*seen)
        assert joined.index == victim.index
        seen.append(joined)
        members[joined.index] = joined
    watch.release()
    assert all(kinds[kind] for kind in KINDS)


def assert_exact(result: RunResult, counts: npt.NDArray[np.float32], kills: int) -> None:
    """Asserts that the losses have cost no attempt and no row, and that the gang has grown again.

    Args:
        counts: Returned by `counts.counts_of` of the model.
    """
    (attempt,) = result.attempts
    assert (attempt.workers, attempt.failures, attempt.root_cause) == (3, (), None)
    assert len(attempt.losses) == kills
    found = {(epoch.planned, epoch.trained, epoch.replayed, epoch.complete) for epoch in result.rows}
    assert found == {(ROWS, ROWS, 0, True)}
    assert counts[1:].tolist() == [float(_epochs(kills))] * ROWS


def _epochs(kills: int) -> int:
    """Returns enough for each kill: of two updates a second, eighty seconds until a successor has joined."""
    return 8 * kills


def _kill(kind: str, victim: Held, others: list[Held]) -> str:
    """Kills a worker by one of its processes; returns which: an executor that has another one, too, is not killed."""
    executor = executor_of(victim.pid)
    if kind == "executor" and executor not in [executor_of(held.pid) for held in others]:
        executor.kill()
        return kind
    if kind == "trainer":
        psutil.Process(victim.pid).kill()
        return kind
    psutil.Process(victim.pid).parents()[0].kill()
    return "agent"
