"""Guards of a head, each taken out: what stands in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulation.disk import Disk

from sparktf.errors import StorageError, StorageExistsError
from sparktf.storage.transactions.head import Edition, FolderHead, HeadMovedError
from sparktf.storage.transactions.leftovers import discard
from sparktf.storage.transactions.object_head import ObjectHead

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


def _is_not_looked_for(self: ObjectHead, edition: Edition, new: Edition, error: StorageError) -> None:
    raise HeadMovedError if isinstance(error, StorageExistsError) else error


def _is_anybodys(self: ObjectHead, edition: Edition, new: Edition, error: StorageError) -> None:
    if self.read().number < new.number:
        raise error


def _by_its_number(self: ObjectHead, edition: Edition, content: bytes) -> Edition:
    new = Edition(edition.number + 1, content)
    self.read()  # whatever is there now is replaced
    self._storage.put_tagged(self._path, b"%d\n%b" % new, self.known.tag)
    return new


_OBJECT = "sparktf.storage.transactions.object_head.ObjectHead"
_HEAD = "sparktf.storage.transactions.head.FolderHead"

GUARDS: Mapping[str, Mapping[str, Any]] = {
    "the rename of an edition refuses a number that is taken": {"simulation.disk.Disk.rename": _over_what_is_there},
    "an edition that was put below a newer one is none": {f"{_HEAD}._confirm": _nothing},
    "a swap whose answer was lost is found": {f"{_HEAD}._is_there": lambda self, edition: False},
    "a swap that failed is not another's that succeeded": {f"{_HEAD}._is_there": _whoever_it_is},
    "who has put an edition deletes older ones alone": {f"{_HEAD}._prune": _all_others},
}
"""Guard -> what to patch -> with what."""

OF_OBJECTS: Mapping[str, Mapping[str, Any]] = {
    "a store keeps the condition of a put": {"simulation.objects.SimObjects.holds": lambda self, path, tag: True},
    "an object that was put although its put was refused or not answered is found": {
        f"{_OBJECT}._settle": _is_not_looked_for
    },
    "an object that is there after a put that was refused may be another's": {f"{_OBJECT}._settle": _is_anybodys},
    "an object is replaced only if it is still what was read": {f"{_OBJECT}.swap": _by_its_number},
}
"""Those of a head that is one object."""
