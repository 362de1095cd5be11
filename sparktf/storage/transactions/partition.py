"""The predictions of a day on a file system: a partition that is replaced as a whole, wherever its writers die.

<path>/
    date=2026-11-20/            whole from the moment it is seen
        _sparktf.json           its marker; readers of Spark's skip it
    _scored-2026-11-20-.../     on its way; Spark and Hive skip names that begin with "_"
    _before-2026-11-20-.../     the old partition, for the moment between two renames

In a store of objects, which renames nothing, the files are copied to their places, and the marker is replaced after
that: it names the files that count. Of two jobs that replace a day at once, one replaces the marker that both have
read.

Only folders with our marker are replaced: others may be somebody's lake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pydantic import ValidationError

from sparktf.errors import ConfigError, StorageError, StorageNotFoundError, StorageUnavailableError
from sparktf.message import Message
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.leftovers import NONCE, abort_left, discard, is_staged_name, staged_name, sweep
from sparktf.storage.transactions.placed_objects import ObjectStore, copy_all, files_in, store_of
from sparktf.storage.transactions.replaced_folder import replace_folder, restore
from sparktf.storage.transactions.settled_put import put_settled

MARKER = "_sparktf.json"
_SCORED, _BEFORE = "_scored-", "_before-"
_TAKEN_AWAY = re.compile(rf"{_BEFORE}(\d{{4}}-\d\d-\d\d)-{NONCE}")
_TRIES = 20
"""Attempts to read the marker of a partition that is replaced at the same moment."""


class Marker(Message):
    """The origin of a partition, stored in it."""

    name: str  # The configuration's
    version: str  # The model's
    job: str  # Id of the Spark application that has written it
    files: tuple[str, ...] = ()  # In a store of objects, those that count: others are being replaced, or are coming


class DayFolder(NamedTuple):
    """The partition of a day, in a folder that is partitioned by one column."""

    path: str
    column: str
    date: str

    @property
    def folder(self) -> str:
        """The path for readers."""
        return f"{self.path}/{self.column}={self.date}"


class Partition:
    """A day's predictions. Any number of processes may replace them: readers see all predictions of one process."""

    def __init__(self, storage: Storage, place: DayFolder, *, replaces_any: bool = False) -> None:
        """Touches nothing.

        Args:
            place: Its path does not end in a slash.
            replaces_any: Whether the present folder need not be ours.
        """
        self.folder = place.folder
        self._storage = storage
        self._place = place
        self._replaces_any = replaces_any

    def replace(self, write: Callable[[str], None], marker: Marker, now_s: float) -> None:
        """Has the partition written, and then replaces the present one.

        Args:
            write: Writes it into a new folder.
            marker: Its origin.
            now_s: Since 1970.

        Raises:
            ConfigError: the present one is not ours; it stays.
            StorageError: the storage failed; readers still see the present one.
        """
        self.tidy(now_s)
        self._check(self.folder, marker)
        scored = self._aside(_SCORED)
        if (store := store_of(self._storage)) is not None:
            self._replace_objects(store, write, scored, marker)
            return
        try:
            write(scored)
            self._storage.write_bytes(f"{scored}/{MARKER}", _content(marker))
            gone = replace_folder(
                self._storage,
                scored,
                self.folder,
                lambda: self._aside(_BEFORE),
                lambda folder: self._check(folder, marker),
            )
        finally:
            discard(self._storage, scored)
        discard(self._storage, *gone)  # else the next one that writes a day here does it

    def _replace_objects(self, store: ObjectStore, write: Callable[[str], None], scored: str, marker: Marker) -> None:
        """Copies what is written to its place: the marker, which names the files that count, decides who was first."""
        path = f"{self.folder}/{MARKER}"
        try:
            if not store.exists(path):
                put_settled(store, path, _content(marker), None)
            tag = store.read_tagged(path)[1]
            self._check(self.folder, marker)  # another's marker may have come since
            write(scored)
            before = files_in(store, self.folder)
            files = copy_all(store, scored, self.folder)
            if not put_settled(store, path, _content(marker.model_copy(update={"files": files})), tag):
                discard(store, *(f"{self.folder}/{name}" for name in files))
                raise StorageUnavailableError(
                    f"{self.folder} was replaced by another job at the same moment: run this one again"
                )
            for old in before:
                store.delete(old)
        finally:
            discard(store, scored)

    def tidy(self, now_s: float) -> None:
        """Puts back partitions moved away by processes that died before their own was in place, and deletes their
        leftovers.

        Of all days, since those of another day may never be written again. Raises `StorageError`.
        """
        try:
            names = [name_of(entry.path) for entry in self._storage.list(self._place.path)]
        except StorageNotFoundError:
            return
        for taken in filter(None, map(_TAKEN_AWAY.fullmatch, names)):
            restore(self._storage, f"{self._place.path}/{taken[0]}", self._place._replace(date=taken[1]).folder)
        with suppress(StorageError):  # another user's, say, who may write here too
            sweep(self._storage, self._place.path, (_SCORED,), now_s)
        abort_left(self._storage, self._place.path, lambda path: is_staged_name(path.partition("/")[0], _SCORED), now_s)

    def _aside(self, prefix: str) -> str:
        return f"{self._place.path}/{staged_name(prefix, self._place.date)}"

    def _check(self, folder: str, marker: Marker) -> None:
        """Checks that a folder may be replaced, if it exists. Raises `ConfigError` if it is not ours."""
        whose = marker.name if self._replaces_any else self._whose(folder)
        if whose in (None, marker.name):
            return
        said = f"holds predictions of {whose}" if whose else f"has no {MARKER} that names its owner"
        raise ConfigError(
            f"predict.output: {self.folder} {said}, and {marker.name} replaces only its own predictions: choose "
            "another predict.output, or set predict.overwrite: any to replace it"
        )

    def _whose(self, folder: str) -> str | None:
        """Returns the name in a partition's marker; "" without a marker, None without a folder."""
        for _ in range(_TRIES):
            try:
                names = [name_of(entry.path) for entry in self._storage.list(folder)]
            except StorageNotFoundError:
                return "" if self._storage.exists(folder) else None  # a file
            if MARKER not in names:
                return "" if names else None
            with suppress(StorageNotFoundError):  # replaced by another since
                return self._marked(folder)
        return ""

    def _marked(self, folder: str) -> str:
        try:
            return Marker.model_validate_json(self._storage.read_bytes(f"{folder}/{MARKER}")).name
        except ValidationError:
            return ""


def _content(marker: Marker) -> bytes:
    return marker.model_dump_json(indent=1, exclude=None if marker.files else {"files"}).encode()
