"""Folders that are tables of another format, of which not every Parquet file belongs to the rows. Reads no file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.errors import ConfigError, StorageNotFoundError, StoragePermissionError
from sparktf.storage.base import FileEntry, Storage, is_hidden

# Names that Hadoop gives to files that are still being written.
_UNFINISHED = "._COPYING_"

_DELTA = "a Delta table"
_HUDI = "a Hudi table"
_ICEBERG = "an Iceberg table"
_ACID = "a transactional table of Hive's"

_DELTA_LOG, _HUDI_FOLDER = "_delta_log", ".hoodie"
_MARKS = {_DELTA_LOG: _DELTA, _HUDI_FOLDER: _HUDI, ".hoodie_partition_metadata": _HUDI}
_METADATA, _DATA = "metadata", "data"
_ICEBERG_FILE = re.compile(r"version-hint\.text|.*\.metadata\.json(\.gz)?")
_ACID_FOLDER = re.compile(r"base_\d{7,}(_v\d+)?|(delete_)?delta_\d{7,}_\d{7,}(_\d+)?(_v\d+)?", re.ASCII)
_STREAM_LOG = "_spark_metadata"

_WAYS = {
    _DELTA: "use data.format: delta, or data.table",
    _HUDI: "use data.format: hudi, or data.table",
    _ICEBERG: "use data.table with its name in a Spark catalog, or data.format: iceberg",
    _ACID: "use data.source with a function that reads it through Hive",
}


def list_files(storage: Storage, root: str, key: str) -> list[FileEntry]:
    """Lists the data files below a folder, sorted by path: all but those that Spark ignores.

    Args:
        key: The configuration key of the path.

    Raises:
        ConfigError: the folder is a table of another format, or holds one.
        NotPlainError: Spark has a log of the files that belong to it.
    """
    files: list[FileEntry] = []
    folders = [root]
    while folders:
        folder = folders.pop()
        entries = storage.list(folder)
        if table := _table_in(folder, entries):
            raise _refusal(key, root, *table)
        if folder == root and _STREAM_LOG in map(_name, entries):
            raise NotPlainError(f"a streaming query wrote {root}, and its log tells which files belong to it")
        for entry in entries:
            if is_hidden(_name(entry)) or entry.path.endswith(_UNFINISHED):
                continue
            if entry.is_dir:
                folders.append(entry.path)
            else:
                files.append(entry)
    return sorted(files)


def check_no_table(storage: Storage, path: str, key: str) -> None:
    """Checks that a path is no table of another format, and not within one, where the table decides which files count.

    Raises:
        ConfigError: it is.
        StorageNotFoundError: nothing is there.
    """
    root = storage.stat(path)
    if root.is_dir and (table := _table_at(storage, root.path)):
        raise _refusal(key, root.path, *table)
    check_not_within(storage, root.path, key)


def check_not_within(storage: Storage, path: str, key: str) -> None:
    """Checks that a file or folder is not within a table of another format. Raises `ConfigError` if it is."""
    below = path
    while (folder := below.rpartition("/")[0]) and not folder.endswith("/"):
        if table := _table_above(storage, folder, _name_of(below)):
            raise _refusal(key, path, *table)
        below = folder


def _table_in(folder: str, entries: Sequence[FileEntry]) -> tuple[str, str] | None:
    """Returns a table, as (kind, folder), that a folder's entries belong to."""
    for entry in entries:
        name = _name(entry)
        if name in _MARKS:
            return _MARKS[name], folder
        if entry.is_dir and _ACID_FOLDER.fullmatch(name):
            return _ACID, folder
        if _name_of(folder) == _METADATA and _ICEBERG_FILE.fullmatch(name):
            return _ICEBERG, folder.rpartition("/")[0]
    return None


def _table_at(storage: Storage, folder: str) -> tuple[str, str] | None:
    entries = storage.list(folder)
    metadata = next((entry for entry in entries if entry.is_dir and _name(entry) == _METADATA), None)
    return _table_in(folder, entries) or (metadata and _table_in(metadata.path, storage.list(metadata.path)))


def _table_above(storage: Storage, folder: str, below: str) -> tuple[str, str] | None:
    """Looks at a folder above, which may be a large one: only for the marks of a table."""
    try:
        for name in (_DELTA_LOG, _HUDI_FOLDER):
            if storage.exists(f"{folder}/{name}"):
                return _MARKS[name], folder
        # Iceberg's own place for files; any folder may have a `metadata` beside others.
        metadata = f"{folder}/{_METADATA}"
        if below == _DATA and storage.exists(metadata):
            return _table_in(metadata, storage.list(metadata))
    except (StoragePermissionError, StorageNotFoundError):
        return None  # who may not look there has been given the files alone
    return None


def _refusal(key: str, root: str, table: str, folder: str) -> ConfigError:
    if folder == root:
        what = f"{root} is {table}"
    else:
        what = f"{root} {'holds' if folder.startswith(f'{root}/') else 'belongs to'} {table}, {folder}"
    return ConfigError(f"{key}: {what}, and only the table knows which of its files are current: {_WAYS[table]}")


def _name(entry: FileEntry) -> str:
    return _name_of(entry.path)


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]
