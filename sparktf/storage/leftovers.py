"""What processes have left that were killed while they staged: found by its name, deleted by its age.

Whoever stages writes under a name of its own beside the place that readers look at, and renames or deletes that in the
end. Whoever stages there next calls `sweep` first, with the patterns of all names that anybody stages under there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from sparktf.errors import StorageError, StorageNotFoundError
from sparktf.storage.base import FileEntry, Storage, name_of

LEFT_S = 24 * 3600.0
"""What nobody has written to for so long was left by a process that is dead."""

NONCE = "[0-9a-f]{8}"
"""How a name ends that only one process stages under."""


def sweep(storage: Storage, folder: str, names: re.Pattern[str], now_s: float) -> tuple[str, ...]:
    """Deletes what was left in a folder; returns its paths. What cannot be looked at or deleted stays for the next one.

    Args:
        names: Of what is staged there, whole; nothing else is touched.
        now_s: Since 1970.

    Raises:
        StorageError: the folder cannot be listed; one that is not there has nothing in it.
    """
    try:
        entries = [entry for entry in storage.list(folder) if names.fullmatch(name_of(entry.path))]
    except StorageNotFoundError:
        return ()
    gone = []
    for entry in entries:
        with suppress(StorageError):
            if is_left(storage, entry, now_s):
                storage.delete(entry.path)
                gone.append(entry.path)
    return tuple(gone)


def is_left(storage: Storage, entry: FileEntry, now_s: float) -> bool:
    """Whether nobody has written to a file, or to a folder and all below it, for a day.

    Raises:
        StorageError: it cannot be looked at.
    """
    newest_ms = max(below.modified_ms for below in _with_all_below(storage, entry))
    return newest_ms > 0 and now_s - newest_ms / 1000 > LEFT_S


def _with_all_below(storage: Storage, entry: FileEntry) -> Iterator[FileEntry]:
    """Yields an entry and all below it, what is hidden too: a job of Spark's writes into `_temporary` first."""
    yield entry
    if entry.is_dir:
        for below in storage.list(entry.path):
            yield from _with_all_below(storage, below)
