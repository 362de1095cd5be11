"""Waits for the data before anything is held: until `Lake.shortcoming` names no missing part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparktf.clock import Clock
from sparktf.config.duration import duration_text
from sparktf.config.ready import ReadyConfig, WindowConfig
from sparktf.driver.plan.files import at_once
from sparktf.errors import CorruptFileError, NotReadyError, StorageNotFoundError, StorageUnavailableError
from sparktf.feed.formats.parquet_file import open_parquet
from sparktf.knobs import KNOBS
from sparktf.nightly.natural_order import natural_key
from sparktf.storage.base import FileEntry, Storage

_SUCCESS = "_SUCCESS"
_NAMED = 6
"""Missing partitions that are named; the others are counted."""

_LOOKS = 100
"""Looks within a wait, at least: a wait of minutes must not overrun by half a minute."""


FolderFiles = dict[str, Sequence[FileEntry]]
"""Folder below the lake's path, "" for itself -> its data files; the newest folder last."""


def await_ready(storage: Storage, path: str, ready: ReadyConfig, clock: Clock, say: Callable[[str], None]) -> None:
    """Waits until all conditions of `data.ready` hold.

    A storage that fails, and a file that is missing or cannot be read, may recover: these are waited out too.

    Raises:
        NotReadyError: something is still missing after `ready.wait`; names it.
        StorageUnavailableError: the storage still fails then.
        CorruptFileError: a file is still damaged then.
    """
    lake, began_s, told = Lake(storage, path), clock.now_s(), ""
    while True:
        trouble: StorageUnavailableError | CorruptFileError | None = None
        try:
            lacking = lake.shortcoming(ready, clock.wall_s())
        except (StorageUnavailableError, CorruptFileError) as error:
            lacking, trouble = str(error), error
        except StorageNotFoundError as error:  # a partition is being rewritten: listed files are gone
            lacking = str(error)
        waited_s = clock.now_s() - began_s
        if not lacking:
            if told:
                say(f"the data is ready after {waited_s:.0f} s")
            return
        if waited_s >= ready.wait:
            if trouble is not None:
                raise trouble
            raise not_ready(path, ready, lacking)
        if lacking != told:
            say(f"the data is not ready, waiting up to {duration_text(ready.wait)}: {lacking}")
            told = lacking
        clock.sleep(min(ready.wait - waited_s, KNOBS.ready_poll_s, max(ready.wait / _LOOKS, 1.0)))


def not_ready(path: str, ready: ReadyConfig, lacking: str) -> NotReadyError:
    """Returns the error of a run whose data is not there in time."""
    waited = f" (data.ready.wait: {duration_text(ready.wait)})" if ready.wait else ""
    return NotReadyError(f"data.path {path} is not ready{waited}: {lacking}. Submit the run again later")


class Lake:
    """The files below a path, looked at several times: footers are read once."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._rows: dict[FileEntry, int] = {}

    def shortcoming(self, ready: ReadyConfig, now_s: float) -> str:
        """Returns the missing part in words; "" for nothing.

        Args:
            now_s: Seconds since 1970.

        Raises:
            CorruptFileError: a file's rows cannot be counted.
            StorageError: the storage failed.
        """
        found = self._all() if ready.window is None else self._window(ready.window)
        if missing := [folder for folder, files in found.items() if not files]:
            return _missing(missing, len(found))
        if not found:
            return "there is no data file"
        newest, files = next(reversed(found.items()))
        at = f"{self._path}/{newest}".rstrip("/")
        if ready.success and not self._storage.exists(f"{at}/{_SUCCESS}"):
            return f"{newest or at} has no {_SUCCESS} yet"
        age_s = now_s - max(file.modified_ms for file in files) / 1000
        if ready.max_age is not None and age_s > ready.max_age:
            return (
                f"{newest or at} was written {duration_text(round(age_s))} ago, and data.ready.max_age is "
                f"{duration_text(ready.max_age)}"
            )
        if ready.min_rows is not None:
            rows = self._count([file for files in found.values() for file in files])
            if rows < ready.min_rows:
                return f"there are {rows:,} rows, and data.ready.min_rows is {ready.min_rows:,}"
        return ""

    def _all(self) -> FolderFiles:
        """Returns all partitions; the order of paths, with numbers as such, is the order of time."""
        try:
            entry = self._storage.stat(self._path)
        except StorageNotFoundError:
            return {}
        files = self._files(entry.path) if entry.is_dir else [entry]
        folders: dict[str, list[FileEntry]] = {}
        for file in files:
            below = file.path.removeprefix(entry.path).strip("/") if entry.is_dir else ""
            folders.setdefault(below.rpartition("/")[0], []).append(file)
        return {folder: folders[folder] for folder in sorted(folders, key=natural_key)}

    def _window(self, window: WindowConfig) -> FolderFiles:
        folders = list(window.folders())
        found = at_once("ready", self._files, (f"{self._path}/{folder}" for folder in folders))
        return dict(zip(folders, found, strict=True))

    def _files(self, folder: str) -> list[FileEntry]:
        try:
            return list(self._storage.walk(folder))
        except StorageNotFoundError:
            return []

    def _count(self, files: Sequence[FileEntry]) -> int:
        unknown = [file for file in files if file not in self._rows]
        self._rows.update(zip(unknown, at_once("ready", self._rows_of, unknown), strict=True))
        return sum(self._rows[file] for file in files)

    def _rows_of(self, file: FileEntry) -> int:
        with open_parquet(self._storage, file.path) as parquet:
            return int(parquet.metadata.num_rows)


def _missing(folders: Sequence[str], window: int) -> str:
    named = ", ".join(folders[:_NAMED]) + (f" and {len(folders) - _NAMED:,} more" if len(folders) > _NAMED else "")
    verb = "is" if len(folders) == 1 else "are"
    return f"{named} {verb} missing ({len(folders):,} of {window:,} partitions)"
