"""Whether a store keeps the conditions of puts, on which it rests that one of all submissions owns a run."""

from __future__ import annotations

import secrets

from sparktf.errors import StorageError, StorageExistsError
from sparktf.storage.base import Tag
from sparktf.storage.objects.object_storage import ObjectStorage
from sparktf.storage.transactions.settled_put import put_settled


def check_conditions(store: ObjectStorage, folder: str) -> None:
    """Puts and replaces a small object in a folder, and deletes it.

    Raises:
        StorageError: the store does not keep a condition; says which one.
    """
    path = f"{folder}/.probe-{secrets.token_hex(8)}"
    try:
        first = _put(store, path, b"1", None)
        _check_refused(store, path, None, "a put that must not replace anything (If-None-Match) has replaced an object")
        second = _put(store, path, b"2", first)
        if second == first:
            raise StorageError(f"cannot use {path}: the store gives two editions of an object the same tag")
        _check_refused(store, path, first, "a put has replaced another edition than the one it named (If-Match)")
    finally:
        store.delete(path)


def _put(store: ObjectStorage, path: str, content: bytes, tag: Tag | None) -> Tag:
    if not put_settled(store, path, content, tag):
        raise StorageError(f"cannot use {path}: the store has refused a put whose condition holds")
    return store.read_tagged(path)[1]


def _check_refused(store: ObjectStorage, path: str, tag: Tag | None, what: str) -> None:
    try:
        store.put_tagged(path, b"3", tag)
    except StorageExistsError:
        return
    raise StorageError(
        f"cannot use {path}: {what}, so that two submissions could own one run: choose an output.path in a store that "
        "keeps the conditions of puts, as S3, Azure and Google Cloud Storage themselves do"
    )
