"""Bringing the user's code to the executors."""

from __future__ import annotations

from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from sparktf.driver.code import archive_code, find_code


def ship_code(spark: SparkSession, module: str) -> None:
    """Sends a module, or the top-level package it is in, to the executors.

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
