"""Writes a DataFrame as TFRecord files, which appear all at once or not at all."""

from __future__ import annotations

import time
from typing import Literal

from pyspark.sql import DataFrame

from sparktf.driver.source.written_frame import write_record_frame
from sparktf.driver.spark.application import file_systems_of
from sparktf.errors import ConfigError
from sparktf.storage.transactions.replaced_folder import ReplacedFolder

_MODES = ("error", "errorifexists", "overwrite")
_CODECS = (None, "none", "gzip")


def write(
    df: DataFrame,
    path: str,
    *,
    mode: Literal["error", "errorifexists", "overwrite"] = "error",
    compression: Literal["none", "gzip"] | None = None,
) -> int:
    """Writes each row as a tensorflow.Example, a file for each partition; returns the number of rows.

    Integers and truth values become Int64List; floats, doubles, decimals and vectors FloatList (of 32 bits); texts and
    bytes BytesList. An array has several values, and a null is a feature that the record lacks.

    Args:
        path: A folder. Its files and `_SUCCESS` appear once all are written; readers of Spark's see none before.
        mode: For an existing folder: "error" refuses it, "overwrite" replaces it once all is written, and restores it
            if that fails.
        compression: "gzip", or none.

    Raises:
        ConfigError: the folder exists, or `mode` or `compression` is unknown.
        BadValueError: a column is of a type that no feature has, or a list holds a null.
        StorageError: the storage failed.
    """
    if mode not in _MODES or compression not in _CODECS:
        raise ConfigError(f"mode must be one of {', '.join(_MODES)}, and compression none or gzip")
    spark = df.sparkSession
    file_systems = file_systems_of(spark)
    path = file_systems.normalise(path).rstrip("/")
    storage = file_systems.open(path)
    folder = ReplacedFolder(storage, path)
    folder.tidy(time.time())
    if mode != "overwrite" and storage.exists(path):
        raise ConfigError(f'{path} exists already: pass mode="overwrite" to replace it')
    with folder.staged() as aside:
        rows = write_record_frame(df, storage, aside, compresses=compression == "gzip")
        folder.put(aside, replaces=mode == "overwrite")
    return rows
