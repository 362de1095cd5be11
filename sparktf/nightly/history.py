"""The history of runs: one small Parquet file for each run that has ended, together a table for Spark and Hive.

A file is written once, whole, by the run's owner; a run id that is submitted again replaces its own. Nobody appends to
what another run has written, so that runs which end at the same moment are in nobody's way. The name is the table's
partition: `_runs/name=churn/2026-11-20.parquet`. Columns may be added: readers take one that a file lacks for null.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.driver.plan.files import FOOTER_THREADS
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
    """What is kept of a run.

    Attributes:
        date: The day it was for (`--date`); None without one.
        started: When its last submission began; None where that is not known.
        verdict: The exit code.
        cause: Why there is no model; None where there is one.
        rows: Rows trained, over all epochs.
        metrics: The last ones by stream, as `RunResult.metrics`.
        seconds: Of the last submission by phase, as `RunResult.seconds`.
        locality: Share of the bytes read that lay on the reader's own host; None where nobody knows.
        waiting_share: Share of the trainers' time in which they waited for rows; None where nothing was trained.
        version: As which it published its model; None where it has not.
        champion_version: With which published version its model was compared; None where it was with none.
        champion_metrics: Of that one, on the same rows.
    """

    name: str
    run_id: str
    date: datetime.date | None
    started: datetime.datetime | None
    verdict: int
    cause: str | None
    rows: int
    metrics: dict[str, dict[str, float]]
    seconds: dict[str, float]
    locality: float | None
    waiting_share: float | None
    version: int | None = None
    champion_version: int | None = None
    champion_metrics: dict[str, float] = {}


def run_record(result: RunResult, date: datetime.date | None) -> RunRecord:
    """Returns what is kept of a run that has ended."""
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
    """Returns the names that have runs in the history; none where nothing has been kept below the root.

    Raises:
        StorageError: the storage failed.
    """
    folders = (name_of(entry.path) for entry in _entries(storage, f"{root}/{HISTORY}") if entry.is_dir)
    return [folder.removeprefix(HISTORY_OF_NAME) for folder in folders if folder.startswith(HISTORY_OF_NAME)]


def read_history(
    storage: Storage, root: str, names: Sequence[str], warn: Callable[[str], None] = lambda text: None
) -> list[RunRecord]:
    """Returns what is kept of all runs of some names, the last begun first.

    Args:
        warn: Is told of each file that cannot be read; the others are.

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

    with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="history") as pool:
        records = [record for record in pool.map(read, files) if record is not None]
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
        raise CorruptFileError(f"{path} is no row of the history, and left out: delete it, if nobody else needs it")
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
