"""The form of a plan in the run directory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.driver.plan.plan import Plan, SplitTable
from sparktf.errors import ConfigError
from sparktf.feature import FeedSpec
from sparktf.feed.formats.parquet_file import reading
from sparktf.feed.formats.splits import PARTITION_TYPES
from sparktf.sequence import FileStamp, Integers, Keep, Stream
from sparktf.storage.base import Storage

_FORMAT = 5
_FORMATS = (4, _FORMAT)
"""Readable formats of plans; format 4 lacks the files' stamps."""
_PARTITION = "partition/"
_STORED = {**PARTITION_TYPES, "date": pa.string(), "timestamp": pa.int64()}
"""Spark type of a partition column -> type of its stored values; of any other type, text."""


def save_plan(plan: Plan, storage: Storage, folder: str) -> None:
    """Writes a plan to a folder: one Parquet file for the files, one for each stream, and last `spec.json`.

    Raises:
        StorageError: the folder cannot be written.
    """
    _write_table(storage, f"{folder}/files.parquet", _files_table(plan))
    for stream, table in plan.tables.items():
        _write_table(storage, _stream_path(folder, stream), pa.table(table.columns()))
    spec = {
        "format": _FORMAT,
        "plan_hash": plan.plan_hash,
        "spec": plan.spec.model_dump(mode="json"),
        "hosts": plan.hosts,
        "staged": plan.staged,
        "streams": {stream.value: table.keep.value for stream, table in plan.tables.items()},
        "source_version": plan.source_version,
    }
    # A plan is there when its spec is: what load_plan asks for first is written last.
    storage.write_bytes(f"{folder}/spec.json", json.dumps(spec, indent=1).encode())


def load_plan(storage: Storage, folder: str) -> Plan:
    """Reads a plan that `save_plan` wrote.

    Raises:
        StorageNotFoundError: no whole plan is in the folder.
        ConfigError: a version of sparktf with another form of plans made it.
        CorruptFileError: a file of the plan is damaged.
    """
    spec: dict[str, Any] = json.loads(storage.read_bytes(f"{folder}/spec.json"))
    if spec["format"] not in _FORMATS:
        raise ConfigError(
            f"the plan in {folder} was made by another version of sparktf (format {spec['format']}): resume the run "
            "with that version, or use another --run-id"
        )
    files = _read_table(storage, f"{folder}/files.parquet")
    tables = {
        Stream(stream): SplitTable.from_columns(
            Keep(keep), _arrays(_read_table(storage, _stream_path(folder, Stream(stream))))
        )
        for stream, keep in spec["streams"].items()
    }
    columns = dict(zip(files.column_names, files.columns, strict=True))
    paths = columns["path"].to_pylist()
    values = [column.to_pylist() for name, column in columns.items() if name.startswith(_PARTITION)]
    stamps = [columns[name].to_numpy() for name in FileStamp._fields if name in columns]
    return Plan(
        spec=FeedSpec.model_validate(spec["spec"]),
        plan_hash=spec["plan_hash"],
        files=tuple(paths),
        partition_values=tuple(zip(*values, strict=True)) if values else ((),) * len(paths),
        tables=tables,
        hosts=tuple(spec["hosts"]),
        staged=tuple(Stream(stream) for stream in spec["staged"]),
        stamps=np.stack(stamps, 1) if stamps else None,
        source_version=spec.get("source_version"),
    )


def data_read(storage: Storage, folder: str) -> dict[str, Any]:
    """Returns a stored plan's data, for a published model: its files, or that Spark fed it. Raises as `load_plan`."""
    plan = load_plan(storage, folder)
    files: list[dict[str, Any]] = [{"path": path} for path in plan.files]
    if plan.stamps is not None:
        for file, stamp in zip(files, plan.stamps.tolist(), strict=True):
            file["nbytes"], file["modified_ms"] = stamp[:2]
    return {"plan_hash": plan.plan_hash, "files": files, "fed_by_spark": [stream.value for stream in plan.staged]}


def _stream_path(folder: str, stream: Stream) -> str:
    return f"{folder}/{stream.value}.parquet"


def _files_table(plan: Plan) -> pa.Table:
    """Returns one row per file: its path, then its partition values, then its stamp."""
    arrays = {"path": pa.array(plan.files, pa.string())}
    for i, (name, kind) in enumerate(zip(plan.spec.partition_columns, plan.spec.partition_types, strict=True)):
        arrays[f"{_PARTITION}{name}"] = pa.array(
            [values[i] for values in plan.partition_values], _STORED.get(kind) or pa.string()
        )
    if plan.stamps is not None:
        arrays |= dict(zip(FileStamp._fields, plan.stamps.T, strict=True))
    return pa.table(arrays)


def _write_table(storage: Storage, path: str, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    storage.write_bytes(path, sink.getvalue().to_pybytes())


def _read_table(storage: Storage, path: str) -> pa.Table:
    content = storage.read_bytes(path)
    with reading(path):
        # The whole of it at once: no hive-style columns are to be read out of the run directory's name.
        return pq.ParquetFile(pa.BufferReader(content)).read()


def _arrays(table: pa.Table) -> dict[str, Integers]:
    return {name: table.column(name).to_numpy() for name in table.column_names}
