"""The structure of a DataFrame in Spark's JVM: its plans, and the files that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark import SparkContext
from pyspark.sql import DataFrame

from sparktf.driver.spark.jvm import Java, as_list, class_of, elements, java

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_RELATION, _OF_FILES = f"{_DATASOURCES}.LogicalRelation", f"{_DATASOURCES}.HadoopFsRelation"

_OF_FILES_OF_ICEBERG = ("location", "fileSizeInBytes", "splitOffsets", "format", "keyMetadata")
_BETWEEN = "\x1f"  # No path has it


def analyzed_plan(df: DataFrame) -> Java:
    """Returns the logical plan of a DataFrame with its tables and columns resolved, before optimization."""
    return _execution(df).analyzed()


def physical_plan(df: DataFrame) -> Java:
    """Returns the plan by which Spark would run a DataFrame; Spark makes it and lists files for it."""
    return _execution(df).sparkPlan()


def root_paths(df: DataFrame) -> Iterator[str]:
    """Yields the folders and files that a DataFrame reads, as they are named."""
    for leaf in elements(analyzed_plan(df).collectLeaves()):
        if class_of(leaf) == _RELATION and class_of(leaf.relation()) == _OF_FILES:
            yield from str(leaf.relation().location().rootPaths().mkString("\n")).split("\n")


def input_files(df: DataFrame) -> list[str]:
    """Returns the files that a DataFrame reads. One call over py4j: a table may have millions of them."""
    frame: Any = df._jdf
    files = str(java().org.apache.hadoop.util.StringUtils.join("\n", frame.inputFiles()))
    return [file for file in files.split("\n") if file]


def iceberg_schemas(scan: Java) -> tuple[str, str]:
    """Returns the columns of the snapshot that a scan of an Iceberg table reads, and those of the table now: Iceberg's
    JSON.
    """
    iceberg, table = java().org.apache.iceberg, scan.table().table()
    then = iceberg.util.SnapshotUtil.schemaFor(table, scan.scan().snapshotId())
    return str(iceberg.SchemaParser.toJson(then)), str(iceberg.SchemaParser.toJson(table.schema()))


class IcebergTask(NamedTuple):
    """A part of a file that a scan of an Iceberg table reads."""

    path: str
    nbytes: int  # That it reads
    file_nbytes: int  # Of the whole file
    first_byte: int  # Where Iceberg begins to read the file: behind Parquet's mark, if it knows the row groups; else 0
    file_format: str  # As "PARQUET"
    has_deletes: bool
    is_encrypted: bool


def iceberg_tasks(scan: Java) -> Iterator[IcebergTask]:
    """Yields the parts of files that a scan of an Iceberg table reads, by one call over py4j for each attribute."""
    guava = java().org.apache.iceberg.relocated.com.google.common
    loader = scan.scan().getClass().getClassLoader()
    function = loader.loadClass("org.apache.iceberg.relocated.com.google.common.base.Function")

    def each(values: Java, of: str, name: str) -> Java:
        """Applies a method to values: a class or interface of Iceberg's, and one that has no arguments."""
        method = loader.loadClass(f"org.apache.iceberg.{of}").getMethod(name, _no_classes())
        method.setAccessible(True)  # where its class is Iceberg's own
        handle = java().java.lang.invoke.MethodHandles.lookup().unreflect(method)
        applied = java().java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, handle)
        return guava.collect.Iterables.transform(values, applied)

    def told(values: Java) -> list[str]:
        return str(guava.base.Joiner.on(_BETWEEN).useForNull("").join(values)).split(_BETWEEN)

    groups = each(as_list(scan.inputPartitions()), "spark.source.SparkInputPartition", "taskGroup")
    tasks = guava.collect.Iterables.concat(each(groups, "ScanTaskGroup", "tasks"))
    if tasks.iterator().hasNext():
        files = each(tasks, "ContentScanTask", "file")
        lengths, deletes = (each(tasks, *of) for of in (("ContentScanTask", "length"), ("FileScanTask", "deletes")))
        attributes = [each(files, "ContentFile", name) for name in _OF_FILES_OF_ICEBERG]
        for path, nbytes, file_nbytes, offsets, form, key, deleted in zip(
            *map(told, [*attributes[:1], lengths, *attributes[1:], deletes]), strict=True
        ):
            first = int(offsets.strip("[]").partition(",")[0] or 0)
            yield IcebergTask(path, int(nbytes), int(file_nbytes), first, form, deleted != "[]", bool(key))


def _no_classes() -> Java:
    """Returns an empty array of classes."""
    gateway: Any = SparkContext._gateway
    return gateway.new_array(java().java.lang.Class, 0)


def _execution(df: DataFrame) -> Java:
    return df._jdf.queryExecution()
