"""Removes old runs of one name.

A folder is deleted only if its result shows that it is a run of ours, and its owner's beat that nobody is at work: the
pruner first becomes its owner. It leaves its place by one rename, `_leaving-<run id>-<nonce>`; if its newest term is
still the pruner's, it becomes `_removed-...` and is deleted. Else another driver has taken it up in between, and it is
put back. Both names say what is left to do, so the next pruner completes an interrupted removal.

In a store of objects it is deleted by one swap of its names, while the pruner's fence still stands among them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress

from sparktf.errors import (
    ConfigError,
    CorruptFileError,
    FencedOffError,
    StorageError,
    StorageExistsError,
    StorageNotFoundError,
)
from sparktf.rundir import RESULT, TERMS, RunDirectory, is_name, is_of_a_run, is_on_its_way
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.fence import Fence
from sparktf.storage.transactions.leftovers import is_left
from sparktf.storage.transactions.ownership import Ownership
from sparktf.storage.transactions.results import read_result
from sparktf.storage.transactions.terms import look

OwnerOf = Callable[[RunDirectory], Ownership]
"""Returns the ownership that a pruner may take of a run."""

_LEAVING, _REMOVED = "_leaving-", "_removed-"
_MOVED = re.compile(rf"^({_LEAVING}|{_REMOVED})(?:(.+)-)?([0-9a-f]{{8}})$")
_NONCE = 8
_OF_REFUSED = {RESULT, "last_steps.json", "report.html"}
"""Files of a run that was refused before it had an owner."""


class Pruner:
    """Deletes old runs of one name; see `prune`."""

    def __init__(
        self, storage: Storage, root: str, name: str, claim: OwnerOf, warn: Callable[[str], None], now_s: float
    ) -> None:
        """Touches nothing.

        Args:
            claim: Takes the ownership of a run before it is deleted.
            warn: Called for each folder that stays though it looks like an old run.
            now_s: Seconds since 1970.
        """
        self._storage = storage
        self._root = root
        self._name = name
        self._above = f"{root.rstrip('/')}/{name}"
        self._claim = claim
        self._warn = warn
        self._now_s = now_s

    def prune(self, keep: int, spared: Collection[str]) -> tuple[str, ...]:
        """Deletes all ended runs but the newest `keep`; returns the ids of the deleted ones.

        A run without a result, and one whose owner is alive, is left alone: it may be under way.

        Args:
            spared: Ids of runs that stay however old they are.

        Raises:
            StorageError: the storage failed.
        """
        names = [name_of(entry.path) for entry in self._storage.list(self._above) if entry.is_dir]
        for name in names:
            if _MOVED.match(name):
                self._settle(name)
        ended = [found for name in names if is_name(name) for found in self._ended(name)]
        ended.sort(key=lambda found: found[0], reverse=True)
        old = [rundir for _, rundir in ended[keep:] if rundir.run_id not in spared]
        return tuple(rundir.run_id for rundir in old if self._remove(rundir))

    def _ended(self, folder: str) -> list[tuple[int, RunDirectory]]:
        """Returns a run with the time of its end, if the folder is that of a run of ours that has one."""
        try:
            rundir = RunDirectory(self._root, self._name, folder)
            ended_ms = self._storage.stat(rundir.result).modified_ms
            why = self._why_not(rundir)
        except (ConfigError, StorageNotFoundError):
            return []
        if why:
            self._warn(f"output.keep_runs: {rundir.path} stays, and is not counted: {why}")
            return []
        return [(ended_ms, rundir)]

    def _why_not(self, rundir: RunDirectory) -> str:
        """Returns why a folder with a result may not be a run of ours; "" if it is."""
        try:
            result = read_result(self._storage, rundir.result)
        except CorruptFileError as error:
            return str(error)
        if (result.name, result.run_id) != (rundir.name, rundir.run_id):
            return f"its result is of {result.name}/{result.run_id}"
        names = {name_of(entry.path) for entry in self._storage.list(rundir.path)}
        if odd := sorted(name for name in names if not is_of_a_run(name)):
            return f"{odd[0]} in it is not of a run"
        if TERMS not in names and not all(name in _OF_REFUSED or is_on_its_way(name) for name in names):
            return f"it has no {TERMS}/"
        return ""

    def _remove(self, rundir: RunDirectory) -> bool:
        """Deletes a run unless somebody owns it."""
        owner = self._claim(rundir)
        if not owner.take_idle():
            return False
        if not self._storage.renames:
            return self._delete_in_store(rundir, owner)
        leaving = f"{_LEAVING}{rundir.run_id}-{owner.nonce[:_NONCE]}"
        try:
            self._storage.rename(rundir.path, f"{self._above}/{leaving}")
        except StorageError:
            owner.release()
            raise
        return self._settle(leaving)

    def _delete_in_store(self, rundir: RunDirectory, owner: Ownership) -> bool:
        """Deletes a run in a store of objects, in one step, unless it has a newer owner by then."""
        fence = Fence(self._storage, rundir, owner=owner)
        with suppress(FencedOffError):
            fence.hold()
            uploads = self._storage.uploads(rundir.path)
            if self._storage.delete_if(rundir.path, str(fence.path)):
                self._storage.abort(uploads)  # the fence stood after they were listed: they are of nobody newer
                return True
        return False

    def _settle(self, folder: str) -> bool:
        """Completes the removal of a run that was moved away; returns whether it is deleted."""
        found = _MOVED.match(folder)
        assert found is not None
        kind, run_id, nonce = found.groups()
        path, removed = f"{self._above}/{folder}", f"{self._above}/{_REMOVED}{folder.removeprefix(kind)}"
        with suppress(StorageNotFoundError):  # another that comes along at the same moment was quicker
            if not all(is_of_a_run(name_of(entry.path)) for entry in self._storage.list(path)):
                self._warn(f"output.keep_runs: {path} stays: its owner is unknown")
                return False
            if kind == _LEAVING:
                if self._is_another_ones(path, run_id, nonce):
                    return False
                self._storage.rename(path, removed)
            self._storage.delete(removed)
        return True

    def _is_another_ones(self, leaving: str, run_id: str | None, nonce: str) -> bool:
        """Whether another driver has taken a leaving run up; then it is put back, if its place is free."""
        if run_id is None:  # of an earlier version, which did not say whose it is
            return not is_left(self._storage, self._storage.stat(leaving), self._now_s)
        owner = look(self._storage, f"{leaving}/{TERMS}").owner
        if owner is not None and owner.nonce.startswith(nonce):
            return False
        with suppress(StorageExistsError):  # its place was taken by one that has begun anew
            self._storage.rename(leaving, f"{self._above}/{run_id}")
            return True
        return not is_left(self._storage, self._storage.stat(leaving), self._now_s)
