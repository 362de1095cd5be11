"""Looking into trainers from a test: what each update trained on, and trainers that wait inside of one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.processes import wait_for


@dataclass(frozen=True)
class Held:
    """A trainer that waits inside of an update."""

    pid: int
    index: int


class Watch:
    """The folder that the models in `cases` keep their books in (`cases.books`).

    While `hold` stands, every trainer waits at that of its updates which `hold_at` names, counted from 1.
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

    def release(self) -> None:
        """Lets all trainers go on."""
        (self._folder / "hold").unlink(missing_ok=True)

    def held(self, count: int, *, but: Sequence[Held] = (), within_s: float = 400.0) -> list[Held]:
        """Waits until so many trainers wait, not counting those of an earlier attempt; returns them by index.

        By default for longer than a run of `rows.job` may take to start: of what is too slow, that run tells the cause.
        """

        def found() -> list[Held]:
            held = (Held(**json.loads(path.read_text())) for path in self._folder.glob("held-*.json"))
            fresh = sorted((h for h in held if h not in but), key=lambda h: h.index)
            return fresh if len(fresh) >= count else []

        return wait_for(f"{count} trainers wait in an update", found, within_s=within_s)

    def wait_until_released(self, held: Held) -> None:
        """Waits until a trainer goes on."""
        told = self._folder / f"held-{held.pid}.json"
        wait_for("a trainer goes on", lambda: not told.exists(), within_s=60)

    def pids(self) -> list[int]:
        """Returns the trainers that have made updates, the oldest first."""
        logs = sorted(self._folder.glob("ids-*.jsonl"), key=lambda log: log.stat().st_mtime_ns)
        return [int(log.stem.partition("-")[2]) for log in logs]

    def ids(self, pids: Sequence[int], *, updates: int | None = None) -> Counter[int]:
        """Returns how often each row was in an update of these trainers, counting the first so many updates of each."""
        logs = [(self._folder / f"ids-{pid}.jsonl").read_text().splitlines() for pid in pids]
        return Counter(i for log in logs for line in log[:updates] for i in json.loads(line))
