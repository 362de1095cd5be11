"""The history of runs: one small Parquet file for each run that has ended, together a table for Spark and Hive.

A file is written once, whole, by the run's owner; another submission of the run id replaces it. No two runs write the
same file, so that runs which end at the same moment do not conflict. The name is the table's partition:
`_runs/name=churn/2026-11-20.parquet`. Columns may be added: readers fill a missing one with null.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.driver.plan.files import at_once
from sparktf.errors import CorruptFileError, StorageNotFoundError
from sparktf.feed.formats.parquet_file import reading
from sparktf.results.result import RunResult
from sparktf.rundir import HISTORY, HISTORY_OF_NAME, RunDirectory
from sparktf.storage.base import FileEntry, Storage, name_of

if TYPE_CHECKING:
    from sparktf.driver.hooks import Put

_SUFFIX = ".parquet"

_VALUES = pa.map_(pa.string(), pa.float64())
_SCHEMA = pa.schema(
    {
        "run_id": pa.string(),
        "date": pa.date32(),
        "started": pa.timestamp("us", "UTC"),
        "verdict": pa.int32(),
        "cause": pa.string(),
        "rows": pa.int64(),
        "metrics": pa.map_(pa.string(), _VALUES),
        "seconds": _VALUES,
        "locality": pa.float64(),
        "waiting_share": pa.float64(),
        "version": pa.int64(),
        "champion_version": pa.int64(),
        "champion_metrics": _VALUES,
    }
)


class RunRecord(NamedTuple):
    """The history's row of a run."""

    name: str
    run_id: str
    date: datetime.date | None  # The day of the run (`--date`); None without one
    started: datetime.datetime | None  # When its last submission began; None if unknown
    verdict: int  # The exit code
    cause: str | None  # Why there is no model; None if there is one
    rows: int  # Rows trained, over all epochs
    metrics: dict[str, dict[str, float]]  # The last ones by stream, as `RunResult.metrics`
    seconds: dict[str, float]  # Of the last submission by phase, as `RunResult.seconds`
    locality: float | None  # Share of the bytes read that were stored on the reader's own host; None if unknown
    # Share of the trainers' time in which they waited for rows; None if nothing was trained
    waiting_share: float | None
    version: int | None = None  # The published version; None if there is none
    # The published version that its model was compared with; None without a comparison
    champion_version: int | None = None
    champion_metrics: dict[str, float] = {}  # That version's, on the same rows


def run_record(result: RunResult, date: datetime.date | None) -> RunRecord:
    """Returns the history's row of a run that has ended."""
    compared = result.comparison
    return RunRecord(
        name=result.name,
        run_id=result.run_id,
        date=date,
        started=datetime.datetime.fromisoformat(result.started) if result.started else None,
        verdict=int(result.verdict),
        cause=None if result.error is None else result.error.message,
        rows=result.rows_trained,
        metrics=result.metrics,
        seconds=result.seconds,
        locality=result.locality,
        waiting_share=result.waiting_share,
        version=result.extra.get("published"),
        champion_version=None if compared is None else compared.champion_version,
        champion_metrics={} if compared is None else compared.champion_metrics,
    )


def keep_record(record: RunRecord, rundir: RunDirectory, storage: Storage, put: Put) -> None:
    """Writes a run's file, replacing that of an earlier submission.

    Raises:
        FencedOffError: a newer submission owns the run.
        StorageError: the storage failed.
    """
    row = {name: value for name, value in record._asdict().items() if name in _SCHEMA.names}
    row["metrics"] = [(stream, list(values.items())) for stream, values in record.metrics.items()]
    row["seconds"] = list(record.seconds.items())
    row["champion_metrics"] = list(record.champion_metrics.items())
    sink = pa.BufferOutputStream()
    # The old form of times is the one that every Hive reads.
    pq.write_table(pa.Table.from_pylist([row], _SCHEMA), sink, use_deprecated_int96_timestamps=True)
    storage.make_dirs(rundir.history.rpartition("/")[0])
    put(rundir.history, sink.getvalue().to_pybytes())


def names_in_history(storage: Storage, root: str) -> list[str]:
    """Returns the names that have runs in the history; none without a history. Raises `StorageError`."""
    folders = (name_of(entry.path) for entry in _entries(storage, f"{root}/{HISTORY}") if entry.is_dir)
    return [folder.removeprefix(HISTORY_OF_NAME) for folder in folders if folder.startswith(HISTORY_OF_NAME)]


def read_history(
    storage: Storage, root: str, names: Sequence[str], warn: Callable[[str], None] = lambda text: None
) -> list[RunRecord]:
    """Returns the rows of all runs of some names, the last begun first.

    Args:
        warn: Called for each file that cannot be read, which is skipped.

    Raises:
        StorageError: the storage failed.
    """
    files = [
        (name, entry.path)
        for name in names
        for entry in _entries(storage, f"{root}/{HISTORY}/{HISTORY_OF_NAME}{name}")
        if entry.path.endswith(_SUFFIX)
    ]

    def read(file: tuple[str, str]) -> RunRecord | None:
        try:
            return _read(storage, *file)
        except StorageNotFoundError:
            return None  # a new submission of the run is replacing it
        except CorruptFileError as error:
            warn(str(error))
            return None

    records = [record for record in at_once("history", read, files) if record is not None]
    never = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return sorted(records, key=lambda record: (record.started or never, record.name, record.run_id), reverse=True)


def _entries(storage: Storage, folder: str) -> Sequence[FileEntry]:
    try:
        return storage.list(folder)
    except StorageNotFoundError:
        return ()


def _read(storage: Storage, name: str, path: str) -> RunRecord:
    content = storage.read_bytes(path)
    with reading(path):
        # Without threads of Arrow's own: one that only just starts when a short command ends aborts the process.
        file = pq.ParquetFile(pa.BufferReader(content), coerce_int96_timestamp_unit="us", pre_buffer=False)
        rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
    if len(rows) != 1 or rows[0].get("verdict") is None:
        raise CorruptFileError(f"{path} is not a row of the history, and left out: delete it if nobody needs it")
    row = rows[0]
    started = row.get("started")
    return RunRecord(
        name=name,
        run_id=path.rpartition("/")[2].removesuffix(_SUFFIX),
        date=row.get("date"),
        started=started and started.replace(tzinfo=datetime.UTC),
        verdict=row["verdict"],
        cause=row.get("cause"),
        rows=row.get("rows") or 0,
        metrics={stream: dict(values) for stream, values in row.get("metrics") or ()},
        seconds=dict(row.get("seconds") or ()),
        locality=row.get("locality"),
        waiting_share=row.get("waiting_share"),
        version=row.get("version"),
        champion_version=row.get("champion_version"),
        champion_metrics=dict(row.get("champion_metrics") or ()),
    )
