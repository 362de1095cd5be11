"""Evaluates a run's model on a DataFrame: Spark computes the rows, a process on the driver's host has the model."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pyspark.sql import DataFrame

from sparktf.config.job import JobConfig
from sparktf.config.load import dump_config
from sparktf.driver.code.module import search_path
from sparktf.driver.plan.features import Schema
from sparktf.driver.plan.stored_plan import load_plan
from sparktf.driver.source.origin import arrow_schema
from sparktf.errors import BadValueError, ErrorRecord, ModelContractError, NodeLostError, StorageNotFoundError
from sparktf.executor.arrow_pieces import ROWS, packed
from sparktf.executor.trainer_process import trainer_environment
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.arrow_types import fits
from sparktf.feed.arrays.nested import path_of
from sparktf.predict.loaded import quoted
from sparktf.process.log_noise import last_words
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage

_MODULE = "sparktf.trainer.evaluating"
_FILE = "model.keras"


def evaluate_model(
    df: DataFrame, config: JobConfig, rundir: RunDirectory, model: str, storage: Storage
) -> dict[str, float]:
    """Returns the metrics of a run's model on all rows of a DataFrame, as Keras's `evaluate` has them.

    Args:
        config: The run's configuration, whose function builds the model.
        model: The folder of the exported model, whose weights it takes.
        storage: Where both are.

    Raises:
        ColumnError: a column that training used is missing.
        BadValueError: a value is not as in training.
        EmptySourceError: there is no row.
        ModelContractError: the run has no model with compiled metrics.
        ModelError: its own code raised.
        StorageError: the model cannot be read.
    """
    planned = load_plan(storage, rundir.plan).spec
    spec = FeedSpec(features=planned.features, fill_null=planned.fill_null, shuffle=False)
    names = _columns(df, spec)
    told = {
        "config": dump_config(config),
        "spec": spec.model_dump(mode="json"),
        "names": names,
        "path": search_path(config.code_folder),
        "assets": _assets(storage, model),
    }
    with tempfile.TemporaryDirectory(prefix="sparktf-") as folder:
        file = Path(folder, _FILE)
        try:
            storage.download(f"{model}/{_FILE}", file)
        except StorageNotFoundError:
            raise ModelContractError(f"evaluate needs {model}/{_FILE}: add keras to export.formats") from None
        return _evaluated({**told, "file": str(file)}, _pieces(df, names), Path(folder))


def _columns(df: DataFrame, spec: FeedSpec) -> tuple[str, ...]:
    """Returns the columns of a DataFrame that features need, in its order, once it is known that they fit."""
    types = {field.name: field.type for field in arrow_schema(df.sparkSession, df.schema)}
    schema, needed = Schema(types, lambda column: None), set()
    for feature in spec.features:
        for name in feature.columns:
            kind = schema.arrow_type(name, f"{feature.kind.value} {feature.name}")
            if not fits(feature, kind):
                raise BadValueError(
                    f"{feature.kind.value} {feature.name}: column {name!r} is {kind} and cannot be converted to "
                    f"{feature.dtype}"
                )
            needed.add((path_of(types, name) or (name,))[0])
    return tuple(name for name in df.columns if name in needed)


def _assets(storage: Storage, model: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(storage.read_bytes(f"{model}/assets.json"))
    except StorageNotFoundError:
        return {}
    return found


def _pieces(df: DataFrame, names: tuple[str, ...]) -> Iterator[bytes]:
    """Yields the rows of a DataFrame, as Arrow streams, partition by partition."""
    # mapInArrow looks columns up by their names, and would take "user.age" for a field of a struct.
    plain = df.select(*(df[quoted(name)] for name in names)).toDF(*(f"c{i}" for i in range(len(names))))
    for row in plain.mapInArrow(packed, f"{ROWS} binary").toLocalIterator(prefetchPartitions=True):
        yield bytes(row[ROWS])


def _evaluated(told: dict[str, Any], pieces: Iterator[bytes], folder: Path) -> dict[str, float]:
    report, log = folder / "report.json", folder / "log"
    with log.open("wb") as said:
        command = [sys.executable, "-P", "-m", _MODULE, str(report)]
        environment = trainer_environment(folder)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said, env=environment) as process:
            try:
                with suppress(BrokenPipeError):  # it has ended, and has said why
                    _send(process.stdin, told, pieces)
                code = process.wait()
            finally:
                process.kill()
    if not report.exists():
        last = last_words(log.read_text(errors="replace"), 1).strip() or "it printed nothing"
        raise NodeLostError(f"evaluate: the process that has the model ended with exit code {code}: {last}")
    found = json.loads(report.read_bytes())
    if found["error"] is not None:
        raise ErrorRecord.model_validate(found["error"]).to_error()
    return {name: float(value) for name, value in found["values"].items()}


def _send(stream: IO[bytes] | None, told: dict[str, Any], pieces: Iterator[bytes]) -> None:
    if stream is None:
        return
    with stream:
        stream.write(json.dumps(told).encode() + b"\n")
        for piece in pieces:
            stream.write(len(piece).to_bytes(8, "big") + piece)
        stream.write(bytes(8))
