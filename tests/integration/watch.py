"""Looking into trainers from a test: what each update trained on, and trainers that wait inside of one."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.processes import wait_for

_BETWEEN_UPDATES_S = 0.5
"""So that a run has epochs left when a successor has started, which takes tens of seconds."""


@dataclass(frozen=True)
class Held:
    """A trainer that waits inside of an update or an evaluation.

    Attributes:
        number: Which of its waits it is, counted from 1.
    """

    pid: int
    index: int
    number: int = field(default=0, compare=False)


class Watch:
    """The folder that the models in `cases` keep their books in (`cases.books`).

    While `hold` stands, every trainer waits at that of its updates which `hold_at` names, counted from 1, and at that
    batch of its evaluations which the parameter `hold_evaluation_at` names; once `hold_by_one` stands, at each update.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder

    def params(self, *, hold_at: int = 0) -> dict[str, Any]:
        """Returns `params` for a model of `cases`."""
        return {"books": str(self._folder), "hold_at": hold_at}

    def hold(self) -> None:
        """Makes trainers wait."""
        (self._folder / "hold").touch()

    def hold_by_one(self) -> None:
        """Makes trainers wait at each of their updates; `let_go` lets them go on to the next one."""
        (self._folder / "by-one").touch()
        self.hold()

    def let_go(self, held: Held) -> None:
        """Lets a trainer go on until its next wait."""
        (self._folder / f"go-{held.pid}").touch()

    def go_on(self, held: Held) -> None:
        """Lets a trainer go on, and waits until it waits again."""
        self._pass(held)
        wait_for("a trainer goes on", lambda: held in self._held(), within_s=60)

    def joined(self, *members: Held, within_s: float = 180.0) -> Held:
        """Lets trainers go on, two updates a second at most, until one that has joined them waits; returns that.

        Args:
            members: All that have waited so far, also those that are lost.
        """
        next_s = time.monotonic()

        def found() -> list[Held]:
            nonlocal next_s
            held = self._held()
            new = [one for one in held if one not in members]
            if not new and time.monotonic() >= next_s:
                next_s = time.monotonic() + _BETWEEN_UPDATES_S
                for one in held:
                    self.let_go(one)
            return new

        (only,) = wait_for("a trainer has joined", found, within_s=within_s)
        return only

    def release(self) -> None:
        """Lets all trainers go on."""
        for name in ("by-one", "hold"):
            (self._folder / name).unlink(missing_ok=True)

    def held(self, count: int, *, but: Sequence[Held] = (), within_s: float = 400.0) -> list[Held]:
        """Waits until so many trainers wait, not counting those of an earlier attempt; returns them by index.

        By default for longer than a run of `rows.job` may take to start: of what is too slow, that run tells the cause.
        """

        def found() -> list[Held]:
            fresh = sorted((h for h in self._held() if h not in but), key=lambda h: h.index)
            return fresh if len(fresh) >= count else []

        return wait_for(f"{count} trainers wait in an update", found, within_s=within_s)

    def wait_until_released(self, held: Held) -> None:
        """Waits until a trainer goes on; it may wait again by then."""
        here = (held.pid, held.number)
        wait_for("a trainer goes on", lambda: here not in {(h.pid, h.number) for h in self._held()}, within_s=60)

    def said(self, name: str) -> str:
        """Returns what a model has written into a file of its own there; "" before it has."""
        with suppress(FileNotFoundError):
            return (self._folder / name).read_text()
        return ""

    def pids(self) -> list[int]:
        """Returns the trainers that have made updates, the oldest first."""
        logs = sorted(self._folder.glob("ids-*.jsonl"), key=lambda log: log.stat().st_mtime_ns)
        return [int(log.stem.partition("-")[2]) for log in logs]

    def ids(self, pids: Sequence[int], *, updates: int | None = None) -> Counter[int]:
        """Returns how often each row was in an update of these trainers, counting the first so many updates of each."""
        logs = [(self._folder / f"ids-{pid}.jsonl").read_text().splitlines() for pid in pids]
        return Counter(i for log in logs for line in log[:updates] for i in json.loads(line))

    def _pass(self, held: Held) -> None:
        """Lets a trainer go on from where it waits now."""
        now = next((other for other in self._held() if other == held), held)
        self.let_go(now)
        self.wait_until_released(now)

    def _held(self) -> list[Held]:
        found = []
        for path in self._folder.glob("held-*.json"):
            with suppress(FileNotFoundError):  # it goes on just now
                found.append(Held(**json.loads(path.read_text())))
        return found
