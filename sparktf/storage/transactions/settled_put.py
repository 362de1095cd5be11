"""A put on a condition, made until it is known whether it has happened."""

from __future__ import annotations

from contextlib import suppress

from sparktf.errors import StorageExistsError, StorageNotFoundError, StorageUnavailableError
from sparktf.storage.base import ConditionalStorage, Tag

_TRIES = 5


def put_settled(storage: ConditionalStorage, path: str, content: bytes, tag: Tag | None) -> bool:
    """Puts an object in place of the edition of a tag; returns whether it did. If not, it cannot come later either.

    Args:
        content: Unique to this call.
        tag: None where there is no object.

    Raises:
        StorageError: the storage failed; the object may be there, or come later.
    """
    with suppress(StorageExistsError, StorageUnavailableError):
        storage.put_tagged(path, content, tag)
        return True
    for _ in range(_TRIES):
        found, there = _read(storage, path)
        if found == content:  # the answer was lost
            return True
        if there != tag:
            return False
        with suppress(StorageExistsError):
            storage.put_tagged(path, content, tag)
            return True
    raise StorageUnavailableError(f"cannot write {path}: the storage says that it is there, and that it is not")


def _read(storage: ConditionalStorage, path: str) -> tuple[bytes | None, Tag | None]:
    try:
        return storage.read_tagged(path)
    except StorageNotFoundError:
        return None, None
