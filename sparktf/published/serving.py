"""The published models of one name: numbered versions, and `CURRENT`, which names the one that readers take.

    <output.path>/<name>/serving/
        14/               whole from the moment it is seen: the SavedModel's own files, model.keras, MANIFEST.json, ...
        CURRENT           "14"
        _withdrawn-13/    rolled back: hidden from TensorFlow Serving, which takes the highest number
        _staged-.../      on its way; only its writer looks here

Numbers only grow. Between two changes the highest visible number is the one that `CURRENT` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

from sparktf.errors import (
    ConfigError,
    StorageExistsError,
    StorageNotFoundError,
    StorageUnavailableError,
    TornCheckpointError,
)
from sparktf.rundir import SERVING
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.checkpoints import FileManifest, parse_manifest, read_manifest
from sparktf.storage.transactions.leftovers import discard
from sparktf.storage.transactions.turn import WITHDRAWN, Turn, TurnLostError, take_turn

CURRENT = "CURRENT"

_NUMBER = re.compile(rf"^({WITHDRAWN})?([1-9]\d*)$")
_TURNS = 20
"""Attempts at a change while other processes change the models at the same moment."""

_T = TypeVar("_T")


class ModelManifest(FileManifest):
    """The description of a version."""

    name: str
    run_id: str
    date: str  # The model's day, as YYYY-MM-DD
    published: str  # Time of publishing, ISO 8601
    plan_hash: str  # Of its training's plan
    steps: int  # Optimizer updates
    # Day of the training from scratch that its weights go back to, perhaps its own; "" for a version published before
    # there were warm starts
    full_date: str = ""
    # Its metrics on one scale with the versions before it: see `gating.levels_after`
    levels: dict[str, float] = {}


class Version(NamedTuple):
    """One version."""

    number: int
    folder: str
    withdrawn: bool  # Rolled back; it stays until it is pruned, and may be brought back


class Dated(Protocol):
    """A run's model, there or to come."""

    @property
    def run_id(self) -> str:
        """The id of its run."""

    @property
    def date(self) -> str:
        """Day that the model is of, as YYYY-MM-DD."""


class Candidate(Dated, Protocol):
    """A model that may become a version."""

    def stage(self, folder: str) -> str:
        """Copies it into a new folder below `folder`, whole, with a `ModelManifest`; returns the new folder."""


class Published(NamedTuple):
    """The outcome of publishing a candidate."""

    version: int | None  # The run's own; None if it has none, since `newer` is of a later day
    is_new: bool = False  # It was published now
    is_current: bool = False  # `CURRENT` names it
    newer: Version | None = None
    newer_date: str = ""


class Serving:
    """The published models of one name. Any number of processes may change them; readers see only whole models."""

    def __init__(self, storage: Storage, root: str, name: str) -> None:
        """Touches nothing. `root` is `output.path`."""
        self.path = f"{root.rstrip('/')}/{name}/{SERVING}"
        self._storage = storage
        self._name = name

    # ---- reading ----

    def current(self) -> int | None:
        """Returns the number in `CURRENT`; None where nothing is published.

        Raises:
            TornCheckpointError: it has none.
            StorageError: the storage failed.
        """
        try:
            text = self._storage.read_bytes(f"{self.path}/{CURRENT}").strip()
        except StorageNotFoundError:
            return None
        if not text.isdigit():
            raise TornCheckpointError(f"{self.path}/{CURRENT} names no version")
        return int(text)

    def versions(self) -> tuple[Version, ...]:
        """Returns all versions by number, including withdrawn ones."""
        try:
            folders = [entry.path for entry in self._storage.list(self.path) if entry.is_dir]
        except StorageNotFoundError:
            return ()
        found = ((_NUMBER.match(name_of(path)), path) for path in folders)
        return tuple(sorted(Version(int(match[2]), path, bool(match[1])) for match, path in found if match))

    def manifest(self, version: Version) -> ModelManifest:
        """Returns the manifest of a version. Raises `TornCheckpointError` if it is not whole."""
        return parse_manifest(self._storage, version.folder, ModelManifest)

    def current_version(self) -> Version | None:
        """Returns the version that `CURRENT` names; None without one."""
        number = self.current()
        return next((version for version in self.versions() if version.number == number), None)

    def champion(self, run_id: str) -> Version | None:
        """Returns the version that a run's model would replace; None without one.

        That is the current one; if that is the run's own, since it ended after it published, the one before.
        """
        number = self.current()
        if number is None:
            return None
        current = Version(number, f"{self.path}/{number}", withdrawn=False)
        mine = self._of_run(run_id)
        if mine is None or mine.number != number:
            return current
        before = [v for v in self.versions() if v.number < number and not v.withdrawn]
        return before[-1] if before else None

    def until(self, number: int, most: int) -> list[tuple[Version, ModelManifest]]:
        """Returns at most `most` visible, whole versions up to a number, the last first."""
        found = []
        for version in reversed([v for v in self._in_sight() if v.number <= number][-most:]):
            with suppress(TornCheckpointError):
                found.append((version, self.manifest(version)))
        return found

    def current_run(self) -> tuple[str, ...]:
        """Returns the id of the run whose model is the current one; none where nothing is published."""
        number = self.current()
        return tuple(self.manifest(version).run_id for version in self.versions() if version.number == number)

    def standing(self, candidate: Dated) -> Published | None:
        """Returns the outcome for a candidate that would not be published now; None if it would be.

        Raises:
            TornCheckpointError: `CURRENT` names no version.
            StorageError: the storage failed.
        """
        current = self.current()
        mine = self._of_run(candidate.run_id)
        if mine is not None:
            return Published(mine.number, is_current=mine.number == current)
        in_sight = self._in_sight()
        # Beside the current one that with the highest number: its run may have ended before it was made current.
        for version in (*in_sight[-1:], *(v for v in in_sight if v.number == current)):
            if (date := self._date(version)) > candidate.date:
                return Published(None, newer=version, newer_date=date)
        return None

    def next_number(self) -> int:
        """Returns the number that the next version gets."""
        return max((0, self.current() or 0, *(version.number for version in self.versions()))) + 1

    # ---- changing ----

    def publish(
        self,
        candidate: Candidate,
        check_owner: Callable[[], None],
        check_champion: Callable[[int | None], None] = lambda current: None,
    ) -> Published:
        """Makes a candidate the current version; does nothing the second time, or if it is of an older day.

        Args:
            check_owner: Raises an error if the candidate is no longer this process's to publish; called after all is
                copied.
            check_champion: Gets the version that the candidate is about to replace, and may raise an error; no other
                version takes its place in between.

        Raises:
            StorageError: the storage failed; readers see whole versions, the old or the new state.
        """
        for _ in range(_TURNS):
            staged = candidate.stage(self.path) if self.standing(candidate) is None else None
            try:
                check_owner()
                with take_turn(self._storage, self.path) as turn:
                    return self._publish(turn, candidate, staged, check_champion)
            except (TurnLostError, StorageExistsError):
                continue
            finally:
                if staged is not None:
                    discard(self._storage, staged)
        raise self._crowded()

    def promote(self, candidate: Candidate) -> int:
        """Makes a candidate the current version, even if it is of an older day; returns its number.

        Raises:
            StorageError: the storage failed, as in `publish`.
        """
        for _ in range(_TURNS):
            mine = self._of_run(candidate.run_id)
            if mine is not None:
                return self.rollback(mine.number)
            staged = candidate.stage(self.path)
            try:
                with take_turn(self._storage, self.path) as turn:
                    if self._of_run(candidate.run_id) is None:
                        return self._show(turn, staged)
            except (TurnLostError, StorageExistsError):
                continue
            finally:
                discard(self._storage, staged)
        raise self._crowded()

    def rollback(self, to: int | None = None) -> int:
        """Makes an earlier version the current one, and withdraws all with higher numbers; returns its number.

        Args:
            to: Its number; a withdrawn one is brought back. Default: the one before the current one.

        Raises:
            ConfigError: there is no such version.
            TornCheckpointError: it is not whole.
            StorageError: the storage failed.
        """
        target = self._earlier(to)
        read_manifest(self._storage, target.folder, ModelManifest)
        return self._in_turn(lambda turn: self._make_current(turn, self._earlier(to)))

    def prune(self, keep: int) -> tuple[int, ...]:
        """Deletes all versions but the newest `keep` and the current one; returns their numbers.

        Folders that are no models of this name, or not whole, stay, and are not counted.

        Raises:
            StorageError: the storage failed.
        """
        return self._in_turn(lambda turn: self._prune(turn, keep))

    def _in_turn(self, change: Callable[[Turn], _T]) -> _T:
        for _ in range(_TURNS):
            try:
                with take_turn(self._storage, self.path) as turn:
                    return change(turn)
            except TurnLostError:
                continue
        raise self._crowded()

    def _publish(
        self, turn: Turn, candidate: Candidate, staged: str | None, check_champion: Callable[[int | None], None]
    ) -> Published:
        standing = self.standing(candidate)
        if standing is None:
            check_champion(self.current())
            if staged is None:
                raise TurnLostError  # the obstacle is gone: begin anew
            return Published(self._show(turn, staged), is_new=True, is_current=True)
        if standing.version is not None and self._was_cut_off(standing.version):
            self._point(turn, standing.version)
            return Published(standing.version, is_new=True, is_current=True)
        return standing

    def _was_cut_off(self, number: int) -> bool:
        """Whether the publisher of a version ended before `CURRENT` named it."""
        return number > (self.current() or 0) and [v.number for v in self._in_sight()[-1:]] == [number]

    def _in_sight(self) -> list[Version]:
        return [version for version in self.versions() if not version.withdrawn]

    def _date(self, version: Version) -> str:
        """Returns the day of a version; "" if it is not whole, which holds no other version back."""
        try:
            return self.manifest(version).date
        except TornCheckpointError:
            return ""

    def _of_run(self, run_id: str) -> Version | None:
        """Returns the newest version that a run has published."""
        for version in reversed(self.versions()):
            # One that is pruned at this moment is none.
            with suppress(TornCheckpointError):
                if self.manifest(version).run_id == run_id:
                    return version
        return None

    def _show(self, turn: Turn, staged: str) -> int:
        number = self.next_number()
        turn.place(staged, f"{self.path}/{number}")
        self._point(turn, number)
        return number

    def _point(self, turn: Turn, number: int) -> None:
        turn.put(f"{self.path}/{CURRENT}", f"{number}\n".encode())

    def _earlier(self, to: int | None) -> Version:
        current, versions = self.current(), self.versions()
        if to is None:
            if current is None:
                raise ConfigError(f"no model of {self._name} is published: {self.path} has no {CURRENT}")
            before = [version for version in versions if version.number < current and not version.withdrawn]
            if not before:
                raise ConfigError(f"there is no version before {current}, which is current, to roll back to")
            return before[-1]
        found = [version for version in versions if version.number == to]
        if not found:
            there = ", ".join(str(version.number) for version in versions)
            raise ConfigError(f"{self._name} has no version {to}; its versions: {there or 'none'}")
        return found[0]

    def _make_current(self, turn: Turn, version: Version) -> int:
        if version.withdrawn:
            turn.bring_back(version.number)
        self._point(turn, version.number)
        # Only now: readers by CURRENT have another one, and those by the highest number get the same.
        for other in self.versions():
            if other.number > version.number and not other.withdrawn:
                turn.withdraw(other.number)
        return version.number

    def _prune(self, turn: Turn, keep: int) -> tuple[int, ...]:
        current = self.current()
        if current is None:
            return ()
        ours = [version for version in self.versions() if self._is_ours(version)]
        old = [version for version in ours[:-keep] if version.number != current]
        for version in old:
            turn.take_in(version.folder)
        return tuple(version.number for version in old)

    def _is_ours(self, version: Version) -> bool:
        """Whether a folder whose name is a number is a model of this name; a torn one may not be."""
        try:
            return self.manifest(version).name == self._name
        except TornCheckpointError:
            return False

    def _crowded(self) -> StorageUnavailableError:
        return StorageUnavailableError(f"{self.path} is changed by others again and again: try again")
