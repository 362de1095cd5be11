"""Guards of a head, each taken out: what stands in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulation.disk import Disk

from sparktf.storage.transactions.head import Edition, FolderHead
from sparktf.storage.transactions.leftovers import discard

_rename = Disk.rename


def _over_what_is_there(self: Disk, source: str, target: str) -> None:
    if self.find(source) is not None:
        self.delete(target)
    _rename(self, source, target)


def _whoever_it_is(self: FolderHead, edition: Edition) -> bool:
    return self.newest() >= edition.number


def _all_others(self: FolderHead, newest: int) -> None:
    for name in self._names(self._storage):
        if name != f"{newest:06d}":
            discard(self._storage, f"{self._folder}/{name}")


def _nothing(*arguments: Any, **named: Any) -> None:
    return None


_HEAD = "sparktf.storage.transactions.head.FolderHead"

GUARDS: Mapping[str, Mapping[str, Any]] = {
    "the rename of an edition refuses a number that is taken": {"simulation.disk.Disk.rename": _over_what_is_there},
    "an edition that was put below a newer one is none": {f"{_HEAD}._confirm": _nothing},
    "a swap whose answer was lost is found": {f"{_HEAD}._is_there": lambda self, edition: False},
    "a swap that failed is not another's that succeeded": {f"{_HEAD}._is_there": _whoever_it_is},
    "who has put an edition deletes older ones alone": {f"{_HEAD}._prune": _all_others},
}
"""Guard -> what to patch -> with what."""
