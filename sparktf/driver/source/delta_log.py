"""The log of a Delta table, read by the package `deltalake`, in a session without Delta's connector."""

from __future__ import annotations

import datetime
import json
import os
import re
import tempfile
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import StructType

from sparktf.driver.plan.files import at_once
from sparktf.driver.plan.partitions import Partitions
from sparktf.driver.source.table_logs import LoggedTable, Missing, WantedVersion, has_values, needs_connector
from sparktf.driver.source.table_version import DELTA_TABLE, TableVersion
from sparktf.errors import EmptySourceError, SourceNotFoundError, StorageNotFoundError
from sparktf.sequence import PartitionValue
from sparktf.storage.base import FileEntry, Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.told import line_of_error

_LOG, _SIDECARS = "_delta_log", "_sidecars"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.[0-9a-f-]{36})?\.(parquet|json)")
_VERSION = re.compile(r"\d{20}(?=\.)")

_ELSEWHERE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")

_MAPPING = "delta.columnMapping.mode"
_DELETES = "deletionVectors"
# Features that change nothing of what files hold, or what is checked below and in their footers.
_HARMLESS = {_DELETES, "columnMapping", "timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"}
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
_AS_IN_FOLDERS = ("integer", "long", "string", "date")


def read_delta_log(
    systems: FileSystems, path: str, wanted: WantedVersion, called: str, missing: Missing
) -> LoggedTable:
    """Returns the files of a version; see `open_log`."""
    root = systems.normalise(path).rstrip("/")
    with tempfile.TemporaryDirectory() as scratch:
        table = _open(systems.open(root), root, Path(scratch), wanted, called, missing)
        _check(table, called)
        told = pa.table(table.get_add_actions())
        told = told.select([name for name in ("path", "partition") if name in told.column_names])  # no statistics
        added = [{**entry, "path": unquote(entry["path"])} for entry in told.to_pylist()]
    if not added:
        raise EmptySourceError(f"{called}: version {table.version()} has no file")
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    columns = table.metadata().partition_columns
    for name in columns:
        if (kind := schema[name].dataType.typeName()) not in _AS_IN_FOLDERS:
            raise needs_connector(called, DELTA_TABLE, f"its partition column {name!r} is of type {kind}")
    for entry in added:
        if _ELSEWHERE.match(entry["path"]):
            raise needs_connector(called, DELTA_TABLE, f"{entry['path']} lies outside of its folder, as of a clone")
        if not has_values(entry.get("partition") or {}, _in_folders(entry["path"], columns)):
            raise needs_connector(called, DELTA_TABLE, f"partition values of {entry['path']} stand in its log alone")
    added.sort(key=itemgetter("path"))
    values = tuple(tuple(_value((entry.get("partition") or {}).get(name)) for name in columns) for entry in added)
    kinds = tuple(schema[name].dataType.simpleString() for name in columns)
    return LoggedTable(
        TableVersion(DELTA_TABLE, int(table.version())),
        tuple(f"{root}/{entry['path']}" for entry in added),
        schema,
        root if columns else None,
        Partitions(tuple(columns), kinds, values),
    )


def _value(value: Any) -> PartitionValue:
    return value.isoformat() if isinstance(value, datetime.date) else value


def _open(
    storage: Storage, root: str, scratch: Path, wanted: WantedVersion, called: str, missing: Missing
) -> DeltaTable:
    """Opens a version of the table by a copy of its log: the package would log in to storages by ways of its own."""
    oldest = _copy(storage, f"{root}/{_LOG}", scratch / _LOG, wanted, called)
    if wanted.at is not None and wanted.at.timestamp() * 1000 < oldest:
        raise missing("its oldest commit is later")
    try:
        table = DeltaTable(scratch, version=wanted.number)
        if wanted.at is not None:
            table.load_as_version(wanted.at)
    except TableNotFoundError as error:
        raise SourceNotFoundError(f"{called}: there is no Delta table") from error
    except DeltaError as error:
        raise missing(line_of_error(error)) from error
    return table


def _copy(storage: Storage, log: str, scratch: Path, wanted: WantedVersion, called: str) -> int:
    """Copies the files of a log that are needed; returns when the oldest of its commits was made, in milliseconds."""
    try:
        entries = [entry for entry in storage.list(log) if not entry.is_dir]
    except StorageNotFoundError as error:
        raise SourceNotFoundError(f"{called}: there is no Delta table ({log} does not exist)") from error
    chosen = entries if wanted.at is not None else _since_checkpoint(entries, wanted.number)
    (scratch / _SIDECARS).mkdir(parents=True)
    if storage.exists(f"{log}/{_SIDECARS}"):
        chosen = [*chosen, *storage.list(f"{log}/{_SIDECARS}")]
    at_once("log", partial(_fetch, storage, log, scratch), chosen)
    commits = [entry.modified_ms for entry in entries if _COMMIT.fullmatch(entry.path.rpartition("/")[2])]
    return min(commits, default=0)


def _fetch(storage: Storage, log: str, scratch: Path, entry: FileEntry) -> None:
    local = scratch / entry.path.removeprefix(f"{log}/")
    storage.download(entry.path, local)
    # A version's time is that of its file, unless the log tells it.
    os.utime(local, ns=(entry.modified_ms * 1_000_000, entry.modified_ms * 1_000_000))


def _since_checkpoint(entries: Sequence[FileEntry], version: int | None) -> Sequence[FileEntry]:
    """Returns the files of a log that tell a version, the newest by default: the last checkpoint before it, and later
    ones.
    """
    names = [entry.path.rpartition("/")[2] for entry in entries]
    checkpoints = [int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))]
    first = max((number for number in checkpoints if version is None or number <= version), default=0)
    numbers = [int(found[0]) if (found := _VERSION.match(name)) else -1 for name in names]
    return [
        entry
        for entry, number in zip(entries, numbers, strict=True)
        if number >= first and (version is None or number <= version)
    ]


def _check(table: DeltaTable, called: str) -> None:
    """Raises `NeedsConnectorError` for a version of which a plain reader would get rows wrong."""
    protocol, mode = table.protocol(), table.metadata().configuration.get(_MAPPING, "none")
    features = set(protocol.reader_features or ())
    if strange := sorted(features - _HARMLESS):
        raise needs_connector(called, DELTA_TABLE, f"it has {', '.join(strange)}")
    if mode != "none":
        raise needs_connector(called, DELTA_TABLE, f"its columns have other names in its files ({_MAPPING}: {mode})")
    if _DELETES in features and _has_deletes(table):
        raise needs_connector(called, DELTA_TABLE, "it has deletion vectors: deleted rows that are still in its files")
    if _PADDED in table.schema().to_json():
        raise needs_connector(called, DELTA_TABLE, "it has columns of type char or varchar")


def _has_deletes(table: DeltaTable) -> bool:
    try:
        return any(batch.num_rows for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    except DeltaError:  # one in a file of its own, which was not copied
        return True


def _in_folders(path: str, columns: Sequence[str]) -> dict[str, str]:
    """Returns the values of partition columns in a path below the table."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1])
    return {unquote(name): unquote(value) for name, equals, value in pairs if equals and unquote(name) in columns}
