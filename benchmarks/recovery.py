"""The price of a lost worker of a synchronous gang: `make bench-recovery`; `ARGS="killed"` measures some parts alone.

A gang of three real trainers on this machine, without Spark, whose trainers are taken away one after the other in one
run, whoever leads. Each trainer notes when it begins an update: gaps between them are what a user sees. The model has
one weight a row, which grows by one in each update that has the row: a row trained twice or never is seen.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from _exchange_members import Way, given
from _recovery_gang import Loss, Setting, losing, losses, wrong_rows
from _report import Figure, figure, report

KILLS, JOINS, FROZEN = 60, 5, 3
ROWS, BATCH = 12_000, 24
BULKS = (50_000_000, 200_000_000)  # Weights: what a regrouping takes by itself matters less, the more there are
HEARTBEAT_S = 5.0
SEED = 7


def killed(folder: Path) -> Iterator[Figure]:
    """Kills trainers, whose connections close."""
    first_s, found, wrong, replayed, attempts = _lost(folder, int(os.environ.get("KILLS", KILLS)))
    stood = [loss.stood_s for loss in found]
    yield figure("killed: gap between updates of the others", stood, unit="s")
    yield figure("killed: the longest of these gaps", [max(stood)], unit="s", goal="<= 0.5")
    yield figure(
        f"{len(found)} kills: rows trained twice or never, or replayed", [wrong + replayed], unit="", goal="<= 0"
    )
    yield figure(f"{len(found)} kills: attempts", [attempts], unit="", goal="<= 1")
    yield figure("first start, to the first update of all", [first_s], unit="s")
    again = [loss.again_s for loss in found]
    yield figure("killed to its successor's first update", again, unit="s")
    ratio = [again_s / first_s for again_s in again]
    yield figure("killed to its successor's first update / first start", ratio, unit="ratio", goal="<= 0.4")
    yield figure("joined: gap between updates of the others", [loss.joined_s for loss in found], unit="s")


def joined(folder: Path) -> Iterator[Figure]:
    """Has successors take a large state."""
    folder.mkdir()
    for bulk in BULKS:
        yield from _joined(folder / str(bulk), bulk)


def _joined(folder: Path, bulk: int) -> Iterator[Figure]:
    way, size = Way("unix sockets", one_host=True), f"{4 * bulk // 1_000_000} MB"
    before_s = given(way, 4 * bulk)
    _, found, *_ = _lost(folder, JOINS, bulk=bulk)
    still = [loss.joined_s - loss.pace_s for loss in found]
    links_s = [before_s, given(way, 4 * bulk)]  # the machine is not the same at all times
    needed_s = sum(links_s) / len(links_s)
    yield figure(f"{size} joined: the others stand still", still, unit="s")
    yield figure(f"{size} over one link", links_s, unit="s")
    ratio = [seconds / needed_s for seconds in still]
    yield figure(f"{size} joined: the others stand still / one link's time", ratio, unit="ratio", goal="<= 1.5")


def frozen(folder: Path) -> Iterator[Figure]:
    """Stops trainers, whose connections stay open."""
    _, found, *_ = _lost(folder, FROZEN, by=signal.SIGSTOP, heartbeat_s=HEARTBEAT_S)
    late = [loss.stood_s - HEARTBEAT_S for loss in found]
    yield figure("frozen: the others go on, less timeouts.heartbeat", late, unit="s", goal="<= 1")


PARTS = {"killed": killed, "joined": joined, "frozen": frozen}


def _lost(
    folder: Path, count: int, *, bulk: int = 1, by: signal.Signals = signal.SIGKILL, heartbeat_s: float = 15.0
) -> tuple[float, list[Loss], int, int, int]:
    """Returns the first start in seconds, each loss, wrong rows, replayed rows, and attempts."""
    epochs = 10 + 2 * count  # of five seconds and more: a loss and its successor take as long
    setting = Setting(ROWS, BATCH, epochs, bulk=bulk, heartbeat_s=heartbeat_s)
    with losing(folder, setting) as run:
        first_s = run.first_s()
        found = losses(run, count, seed=SEED, by=by)
        result = run.end()
    wrong, replayed = wrong_rows(result, setting.rows, setting.epochs)
    return first_s, found, wrong, replayed, len(result.attempts)


def main() -> None:
    """Measures and reports."""
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        chosen = sys.argv[1:] or PARTS
        report("recovery", [found for part in chosen for found in PARTS[part](Path(root) / part)])


if __name__ == "__main__":
    main()
