"""Leftovers: the folders and files staged by a killed process.

A process gives each staged folder a unique name, `staged_name`. One with such a name that was not touched for a day has
no writer any more: `sweep` deletes it, for whatever day or run it was. So does `abort_left` with uploads in parts.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress

from sparktf.errors import StorageError, StorageNotFoundError
from sparktf.storage.base import FileEntry, OpenUpload, Storage, name_of

LEFT_S = 86_400.0
"""Time untouched after which a file counts as left by a dead process."""

_NONCE_NBYTES = 4
NONCE = rf"[0-9a-f]{{{2 * _NONCE_NBYTES}}}"
"""The unique end of a staged name."""


def staged_name(prefix: str, of: str = "", suffix: str = "") -> str:
    """Returns a new name to stage under.

    Args:
        prefix: Of its kind, as "_staged-". It begins with "_", so that Spark and Hive skip it.
        of: For people: a run's id, a day.
        suffix: Of a file, as ".html".
    """
    return f"{prefix}{of}{'-' if of else ''}{secrets.token_hex(_NONCE_NBYTES)}{suffix}"


def is_staged_name(name: str, *prefixes: str) -> bool:
    """Whether `staged_name` has made a name with one of these prefixes."""
    return any(re.match(rf"{re.escape(prefix)}(.+-)?{NONCE}(\.\w+)?$", name) for prefix in prefixes)


def discard(storage: Storage, *paths: str) -> None:
    """Deletes paths without readers; a sweep finds those that cannot be deleted."""
    for path in paths:
        with suppress(StorageError):
            storage.delete(path)


def sweep(storage: Storage, folder: str, prefixes: tuple[str, ...], now_s: float) -> tuple[str, ...]:
    """Deletes leftovers with names of these kinds in a folder; returns their paths.

    Args:
        folder: May be missing.
        now_s: Seconds since 1970.

    Raises:
        StorageError: the storage failed; a later sweep deletes the rest.
    """
    left = tuple(found.path for found in staged(storage, folder, prefixes) if is_left(storage, found, now_s))
    for path in left:
        storage.delete(path)
    return left


def abort_left(storage: Storage, folder: str, is_ours: Callable[[str], bool], now_s: float) -> tuple[str, ...]:
    """Ends uploads below a folder that began more than `LEFT_S` ago; returns their paths. Raises nothing.

    Args:
        is_ours: Whether processes of ours alone write at a path, given without the folder.
        now_s: Seconds since 1970.
    """
    left = tuple(
        upload
        for upload in storage.uploads(folder)
        if is_upload_left(upload, now_s) and is_ours(upload.path.removeprefix(f"{folder}/"))
    )
    storage.abort(left)
    return tuple(upload.path for upload in left)


def is_upload_left(upload: OpenUpload, now_s: float) -> bool:
    """Whether an upload began more than `LEFT_S` ago: no file takes that long."""
    return now_s - upload.began_ms / 1000 > LEFT_S


def staged(storage: Storage, folder: str, prefixes: tuple[str, ...]) -> tuple[FileEntry, ...]:
    """Lists staged entries of these kinds in a folder, left over or in use. Raises `StorageError`."""
    try:
        entries = storage.list(folder)
    except StorageNotFoundError:
        return ()
    return tuple(entry for entry in entries if is_staged_name(name_of(entry.path), *prefixes))


def is_left(storage: Storage, entry: FileEntry, now_s: float) -> bool:
    """Whether no file of an entry was touched for `LEFT_S`. Raises `StorageError`."""
    return all(now_s - found.modified_ms / 1000 > LEFT_S for found in _all(storage, entry))


def _all(storage: Storage, entry: FileEntry) -> Iterator[FileEntry]:
    """Yields an entry, and everything below it, including hidden files such as Spark's `_temporary`."""
    yield entry
    if entry.is_dir:
        try:
            below = storage.list(entry.path)
        except StorageNotFoundError:
            return  # its writer has put it in its place, or another sweeps it
        for found in below:
            yield from _all(storage, found)
