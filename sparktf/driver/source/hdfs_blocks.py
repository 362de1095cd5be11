"""The hosts of files' blocks, from the Hadoop file system of the driver's JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparktf.driver.plan.locality import FileBlock
from sparktf.driver.spark.jvm import printed_blocks
from sparktf.told import line_of_error

_CORRUPT = "(corrupt)"


def locate_blocks(spark: SparkSession, files: Sequence[str]) -> dict[str, list[FileBlock]]:
    """Returns the blocks of each listed file.

    One call to the NameNode for each folder (and for each thousand files of it, `dfs.ls.limit`), not for each file.

    Raises:
        Py4JError: the file system cannot be asked.
    """
    wanted = set(files)
    found: dict[str, list[FileBlock]] = {}
    for folder in dict.fromkeys(file.rpartition("/")[0] for file in files):
        for name, blocks in printed_blocks(spark, folder):
            if (path := f"{folder}/{name}") in wanted:
                found[path] = parse_blocks(blocks)
    return found


def is_on_hdfs(path: str) -> bool:
    """Whether a path is on a file system that says where its blocks lie."""
    return path.startswith(("hdfs://", "viewfs://"))


def parse_blocks(text: str) -> list[FileBlock]:
    """Returns the blocks of a printed array of Hadoop's BlockLocation: "{0,4194304,host1,host2,4194304,100,host2}"."""
    numbers: list[list[int]] = []
    hosts: list[list[str]] = []
    for word in filter(None, text.strip("{}").split(",")):
        # Two numbers begin a block; a host's name or address is never a plain number.
        if not word.isdecimal():
            hosts[-1].append(word.removesuffix(_CORRUPT))
        elif numbers and len(numbers[-1]) == 1:
            numbers[-1].append(int(word))
        else:
            numbers.append([int(word)])
            hosts.append([])
    return sorted(FileBlock(start, nbytes, tuple(h)) for (start, nbytes), h in zip(numbers, hosts, strict=True))


def locate_or_warn(
    spark: SparkSession, warn: Callable[[str], None], files: Sequence[str]
) -> Mapping[str, Sequence[FileBlock]]:
    """Returns the blocks of the files; none, with a warning, if the file system cannot be asked."""
    try:
        return locate_blocks(spark, [file for file in files if is_on_hdfs(file)])
    except Py4JError as e:
        warn(f"the hosts of the blocks are unknown: {line_of_error(e)}")
        return {}
