"""Checks before anything is held: whatever can be refused early is refused early, with the setting to change."""

from __future__ import annotations

from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from sparktf.driver.code import archive_code, find_code
from sparktf.errors import PreflightError, StorageError
from sparktf.storage.base import Storage


def check_output(storage: Storage, path: str) -> None:
    """Refuses an output that cannot be written, renamed or deleted in.

    Raises:
        PreflightError: with the file system's reason.
    """
    try:
        storage.probe(path)
    except StorageError as e:
        raise PreflightError(f"output.path cannot be written: {e}") from e


def ship_model_code(spark: SparkSession, module: str) -> None:
    """Sends the model's module, or the top-level package it is in, to the executors.

    Like `--py-files`, for the common case that the code lies beside the driver's script. Installed packages are
    expected to be on the executors already.
    """
    code = find_code(module)
    if code is None:
        return
    # Executors fetch the archive whenever they come, so it lies in the application's own folder and goes with it.
    folder = Path(SparkFiles.getRootDirectory()) / "sparktf-code"
    folder.mkdir(exist_ok=True)
    spark.sparkContext.addPyFile(str(archive_code(code, folder)))
