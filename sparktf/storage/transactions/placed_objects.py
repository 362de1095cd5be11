"""Files that come to their places in a store of objects, which renames nothing: by copies within the store.

Readers such as Spark list a folder, and find what is there at that moment. So the files are written aside first, which
takes long, and then copied, which takes moments; what they replace is deleted after that. Each has a name of its own.
Who must not see a part of them, or the old ones beside the new ones, waits for the file that comes last.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from sparktf.errors import StorageExistsError, StorageNotFoundError
from sparktf.storage.base import ConditionalStorage, FileEntry, Storage, is_hidden, name_of
from sparktf.storage.transactions.settled_put import put_settled

_AT_ONCE = 16
_CLAIM = "_writing"


class ObjectStore(Storage, ConditionalStorage):
    """A store of objects."""


def store_of(storage: Storage) -> ObjectStore | None:
    """Returns a storage that renames nothing as the store that it is; None for a file system."""
    return None if storage.renames else cast(ObjectStore, storage)


def copy_all(store: ObjectStore, staged: str, folder: str) -> tuple[str, ...]:
    """Copies the files below a staged folder, without hidden ones; returns their new names, each unique.

    Raises:
        StorageError: the storage failed; some may be there.
    """
    nonce = secrets.token_hex(4)
    targets = {}
    for entry in _below(store, staged):
        above, _, name = entry.path.removeprefix(f"{staged}/").rpartition("/")
        targets[entry.path] = f"{above}/{nonce}-{name}" if above else f"{nonce}-{name}"
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="place") as pool:
        copies = [pool.submit(store.copy_object, path, f"{folder}/{name}") for path, name in targets.items()]
        for copy in copies:
            copy.result()
    return tuple(targets.values())


def files_in(store: ObjectStore, folder: str) -> tuple[str, ...]:
    """Returns the paths of the files below a folder that are not hidden; none without a folder. Raises `StorageError`.

    Those who replace them look before their own files count: what others write after that is none of these.
    """
    return tuple(entry.path for entry in _below(store, folder))


def put_folder(store: ObjectStore, staged: str, folder: str, *, replaces: bool) -> None:
    """Puts the files of a staged folder into another one; hidden ones, such as `_SUCCESS`, come last.

    Args:
        replaces: Whether it may have files, which are deleted.

    Raises:
        StorageExistsError: it has files, or another process is writing there.
        StorageError: the storage failed; what is there lacks the hidden ones.
    """
    if not replaces and store.exists(folder):
        raise StorageExistsError(f"cannot write {folder}: it is there")
    claim = f"{folder}/{_CLAIM}"
    if not replaces and not put_settled(store, claim, secrets.token_hex(8).encode(), None):
        raise StorageExistsError(f"cannot write {folder}: another process is writing there")
    if not replaces and any(name_of(entry.path) != _CLAIM for entry in store.list(folder)):
        store.delete(claim)
        raise StorageExistsError(f"cannot write {folder}: another process has written it meanwhile")
    hidden = {name_of(entry.path): entry for entry in store.list(staged) if is_hidden(name_of(entry.path))}
    for name in hidden:
        store.delete(f"{folder}/{name}")
    before = files_in(store, folder)
    copy_all(store, staged, folder)
    for path in before:
        store.delete(path)
    for name, entry in hidden.items():
        store.copy_object(entry.path, f"{folder}/{name}")
    store.delete(claim)


def _below(store: ObjectStore, folder: str) -> list[FileEntry]:
    try:
        return list(store.walk(folder))
    except StorageNotFoundError:
        return []
