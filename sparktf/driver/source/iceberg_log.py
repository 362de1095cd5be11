"""The metadata of an Iceberg table at a path, read by the package `pyiceberg`, in a session without its connector."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable
from pyspark.sql import types as t

from sparktf.driver.plan.field_ids import ids_in_table
from sparktf.driver.plan.partitions import Partitions
from sparktf.driver.source.table_logs import LoggedTable, Missing, WantedVersion, needs_connector
from sparktf.driver.source.table_version import ICEBERG_TABLE, TableVersion
from sparktf.errors import EmptySourceError, SourceNotFoundError, StorageNotFoundError
from sparktf.storage.file_systems import FileSystems

_METADATA = re.compile(r"v?(\d+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?")
_PARQUET = "PARQUET"
_TYPES: Mapping[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "date": t.DateType(),
    "timestamptz": t.TimestampType(),
    "timestamp": t.TimestampNTZType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DEFAULT = "initial-default"


class _File(InputFile):
    """A small file, by our own storages."""

    def __init__(self, systems: FileSystems, location: str) -> None:
        super().__init__(location)
        self._path = systems.normalise(location)
        self._storage = systems.open(self._path)

    def __len__(self) -> int:
        return self._storage.stat(self._path).nbytes

    def exists(self) -> bool:
        return self._storage.exists(self._path)

    def open(self, seekable: bool = True) -> InputStream:
        del seekable
        return io.BytesIO(self._storage.read_bytes(self._path))


class _Files(FileIO):
    """The files that tell which data files a table has, by our own storages."""

    def __init__(self, systems: FileSystems) -> None:
        super().__init__()
        self._systems = systems

    def new_input(self, location: str) -> InputFile:
        return _File(self._systems, location)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError


def read_iceberg_log(
    systems: FileSystems, path: str, wanted: WantedVersion, called: str, missing: Missing
) -> LoggedTable:
    """Returns the files of a snapshot; see `open_log`."""
    table = _open(systems, systems.normalise(path).rstrip("/"), called)
    snapshot = table.current_snapshot()
    if wanted.number is not None:
        snapshot = table.snapshot_by_id(wanted.number)
    elif wanted.at is not None:
        snapshot = table.snapshot_as_of_timestamp(int(wanted.at.timestamp() * 1000))
    if snapshot is None and (wanted.number is not None or wanted.at is not None):
        raise missing("no such snapshot")
    if snapshot is None:
        raise EmptySourceError(f"{called}: the table has no snapshot yet")
    schemas = {number: json.loads(schema.model_dump_json()) for number, schema in table.schemas().items()}
    schema = schemas[table.metadata.current_schema_id if snapshot.schema_id is None else snapshot.schema_id]
    field_ids = _unchanged(schema, list(schemas.values()), called)
    files = []
    for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
        file = task.file
        if task.delete_files:
            raise needs_connector(called, ICEBERG_TABLE, f"rows are deleted that are still in {file.file_path}")
        if str(file.file_format.value).upper() != _PARQUET:
            raise needs_connector(called, ICEBERG_TABLE, f"{file.file_path} is of format {file.file_format.value}")
        if file.key_metadata is not None:
            raise needs_connector(called, ICEBERG_TABLE, f"{file.file_path} is encrypted")
        files.append(systems.normalise(file.file_path))
    if not files:
        raise EmptySourceError(f"{called}: snapshot {snapshot.snapshot_id} has no file")
    version = TableVersion(ICEBERG_TABLE, int(snapshot.snapshot_id))
    return LoggedTable(
        version, tuple(sorted(files)), _struct(schema), None, Partitions((), (), ((),) * len(files)), field_ids
    )


def _open(systems: FileSystems, path: str, called: str) -> StaticTable:
    files = _Files(systems)
    location = path if path.endswith(".json") else _newest(systems, path, called)
    metadata = FromInputFile.table_metadata(files.new_input(location))
    return StaticTable(("table",), metadata, location, files, NoopCatalog("table"))


def _newest(systems: FileSystems, path: str, called: str) -> str:
    """Returns the file of the table's newest metadata: by a catalog of Hadoop's, or by the numbers that others give."""
    storage, folder = systems.open(path), f"{path}/metadata"
    try:
        names = [entry.path.rpartition("/")[2] for entry in storage.list(folder)]
    except StorageNotFoundError as error:
        raise SourceNotFoundError(f"{called}: there is no Iceberg table ({folder} does not exist)") from error
    numbered = [(int(found[1]), name) for name in names if (found := _METADATA.fullmatch(name))]
    if not numbered:
        raise SourceNotFoundError(f"{called}: there is no Iceberg table ({folder} has no *.metadata.json)")
    newest = max(number for number, _ in numbered)
    last = [name for number, name in numbered if number == newest]
    if len(last) > 1:  # commits that lost leave theirs behind, and only a catalog knows which was taken
        raise needs_connector(called, ICEBERG_TABLE, f"{' and '.join(sorted(last))} may each be its newest metadata")
    return f"{folder}/{last[0]}"


def _unchanged(schema: Mapping[str, Any], schemas: list[Mapping[str, Any]], called: str) -> dict[str, int]:
    """Returns the ids of a schema's columns. Raises `NeedsConnectorError` if names or ids ever stood for others."""
    if _DEFAULT in json.dumps(schema):
        raise needs_connector(called, ICEBERG_TABLE, "its columns have default values")
    mine = ids_in_table(schema)
    named = {number: name for name, number in mine.items()}
    for other in map(ids_in_table, schemas):
        for name, number in other.items():
            if mine.get(name, number) != number or named.get(number, name) != name:
                raise needs_connector(called, ICEBERG_TABLE, f"its column {name!r} was renamed, or took a name over")
    return mine


def _struct(schema: Mapping[str, Any]) -> t.StructType:
    """Returns Spark's types of the columns that a tensor can be made of."""
    struct = t.StructType()
    for field in schema["fields"]:
        with suppress(KeyError):
            struct.add(field["name"], _type(field["type"]))
    return struct


def _type(kind: Any) -> t.DataType:
    """Returns Spark's type of one of Iceberg's. Raises `KeyError` for types that no tensor is made of."""
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        return _TYPES[kind] if decimal is None else t.DecimalType(int(decimal[1]), int(decimal[2]))
    if kind["type"] == "list":
        return t.ArrayType(_type(kind["element"]))
    if kind["type"] == "struct":
        return t.StructType([t.StructField(field["name"], _type(field["type"])) for field in kind["fields"]])
    raise KeyError(kind["type"])
