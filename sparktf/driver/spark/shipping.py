"""Bringing the user's code to the executors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from sparktf.driver.code.code_files import archive_files, code_files, digest_of
from sparktf.driver.code.module import search_path
from sparktf.executor.trainer_process import CODE


def ship_code(spark: SparkSession, modules: Mapping[str, str], folder: Path | None) -> None:
    """Sends the user's modules, with the files beside them, to all executors, for every later task.

    They unpack it into a folder that Python imports from: a module finds its data files by its own `__file__`, in
    trainers and in Spark's functions. Unchanged code is not sent again.

    Args:
        modules: Key -> module, see `JobConfig.modules`; `folder` is searched for them first.
    """
    files = code_files(modules, search_path(folder))
    if not files:
        return
    context: Any = spark.sparkContext
    includes: list[str] = context._python_includes  # names, below Spark's files, that Python workers import from
    shipped = [name for name in includes if name.startswith(CODE)]
    digest = digest_of(files)
    if shipped and shipped[-1].endswith(f"-{digest}.zip"):
        return
    # Numbered: workers that have an older one keep it on their path, and a new name comes before it.
    name = f"{CODE}{len(shipped)}-{digest}.zip"
    # Executors fetch the archive whenever they come, so it lies in the application's own folder and goes with it.
    folder = Path(SparkFiles.getRootDirectory()) / "sparktf-code"
    folder.mkdir(mode=0o700, exist_ok=True)
    context.addArchive(str(archive_files(files, folder / name)))  # unpacked to a folder of the archive's name
    includes.append(name)


def code_places(spark: SparkSession) -> list[str]:
    """Returns the folders of shipped code on the driver's host, the newest first."""
    context: Any = spark.sparkContext
    root = Path(SparkFiles.getRootDirectory())
    return [str(root / name) for name in reversed(context._python_includes) if name.startswith(CODE)]
