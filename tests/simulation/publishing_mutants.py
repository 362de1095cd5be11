"""Guards of publishing, each taken out: what stands in their places."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sparktf.errors import StorageNotFoundError
from sparktf.nightly import history
from sparktf.published.serving import Published, Serving
from sparktf.storage.transactions.turn import Turn

_standing = Serving.standing
_keep_record = history.keep_record


def _alone(self: Turn) -> None:
    self._path = self._mine
    self._storage.make_dirs(self._path)


def _straight(self: Turn, source: str, target: str, passing: str | None = None) -> None:
    self._storage.rename(source, target)


def _deleted_first(self: Turn, path: str, content: bytes) -> None:
    with suppress(StorageNotFoundError):
        self._storage.delete(path)
    self._storage.write_bytes(path, content)


def _of_any_day(self: Serving, candidate: Any) -> Published | None:
    standing = _standing(self, candidate)
    return None if standing is not None and standing.version is None else standing


def _put_by_anybody(record: Any, rundir: Any, storage: Any, put: Any) -> None:
    del put
    _keep_record(record, rundir, storage, storage.write_bytes)


def _all_old_ones(self: Serving, turn: Turn, keep: int) -> tuple[int, ...]:
    old = self.versions()[:-keep]
    for version in old:
        turn.take_in(version.folder)
    return tuple(version.number for version in old)


def _shown_as(self: Serving, turn: Turn, staged: str) -> int:
    number = len(self.versions()) + 1
    turn.place(staged, f"{self.path}/{number}")
    self._point(turn, number)
    return number


def _nothing(*arguments: Any, **named: Any) -> None:
    return None


_SERVING = "sparktf.published.serving.Serving"
_TURN = "sparktf.storage.transactions.turn.Turn"

GUARDS: Mapping[str, Mapping[str, Any]] = {
    "who changes the models first ends all other turns": {f"{_TURN}.begin": _alone, f"{_TURN}.place": _straight},
    "a run has one version": {f"{_SERVING}._of_run": lambda self, run_id: None},
    "an older day's model takes no later one's place": {f"{_SERVING}.standing": _of_any_day},
    "the current version is not pruned": {f"{_SERVING}._prune": _all_old_ones},
    "CURRENT is replaced in one step": {f"{_TURN}.put": _deleted_first},
    "numbers only grow": {f"{_SERVING}._show": _shown_as},
    "what follows a result is recorded before it": {
        "sparktf.storage.transactions.last_steps.LastSteps.announce": _nothing
    },
    "what a killed driver has left is done before its verdict is repeated": {
        "sparktf.driver.output.Tenure._begin_last_steps": _nothing
    },
    "a run's row is its owner's": {"sparktf.nightly.night.keep_record": _put_by_anybody},
}
"""Guard -> what to patch -> with what."""

ONLY: Mapping[str, str] = dict.fromkeys(
    (
        "what follows a result is recorded before it",
        "what a killed driver has left is done before its verdict is repeated",
    ),
    "night-killed",
)
"""Guard -> the only kinds of faults that are on."""
