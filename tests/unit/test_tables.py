"""Folders of other table formats are told from lakes of Parquet files, wherever their marks lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import id_table, plan_lake, write_file

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.tables import check_no_table
from sparktf.errors import ConfigError, StorageNotFoundError, StoragePermissionError
from sparktf.sequence import Stream
from sparktf.storage.base import FileEntry
from sparktf.storage.file_systems import open_storage
from sparktf.storage.local import LocalStorage

DELTA = (
    "a Delta table.*, and only the table knows which of its files are current: use data.format: delta, or data.table"
)
HUDI = "a Hudi table.*: use data.format: hudi, or data.table"
ICEBERG = "an Iceberg table.*: use data.table with its name in a Spark catalog, or data.format: iceberg"
ACID = "a transactional table of Hive's.*: use data.source"

FILES = {
    DELTA: ("part-0.parquet", "_delta_log/00000000000000000000.json"),
    HUDI: ("day=1/a_1-0-1_001.parquet", ".hoodie/hoodie.properties"),
    ICEBERG: ("data/day=1/0-0-a.parquet", "metadata/00000-a.metadata.json"),
    ACID: ("delta_0000001_0000001_0000/000000_0",),
}


def make(folder: Path, *names: str) -> Path:
    """Writes files: one row of Parquet in each, but those of JSON and what else belongs to a format."""
    for name in names:
        if name.endswith((".parquet", "000000_0")):
            write_file(folder / name, id_table(0, 1))
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"{}")
    return folder


@pytest.mark.parametrize("reason", FILES)
def test_a_table_is_refused_with_the_way_to_read_it(tmp_path: Path, reason: str) -> None:
    table = make(tmp_path / "t", *FILES[reason])
    with pytest.raises(ConfigError, match=rf"^data\.path: {table} is {reason}"):
        plan_lake(table)
    with pytest.raises(ConfigError, match=rf"^data\.path: {table} is {reason}"):
        check_no_table(open_storage("/"), str(table), "data.path")
    with pytest.raises(ConfigError, match=rf"^data\.validation\.path: {table} is {reason}"):
        plan_lake(make(tmp_path / "plain", "f.parquet"), validation={"path": str(table)})


@pytest.mark.parametrize("reason", FILES)
def test_a_table_among_other_files(tmp_path: Path, reason: str) -> None:
    make(tmp_path / "lake", "day=1/f.parquet")
    table = make(tmp_path / "lake" / "day=2" / "t", *FILES[reason])
    with pytest.raises(ConfigError, match=rf"^data\.path: {tmp_path}/lake holds {reason[:12]}.*{table}, and only"):
        plan_lake(tmp_path / "lake")


@pytest.mark.parametrize("reason", [DELTA, HUDI, ICEBERG])
def test_a_part_of_a_table(tmp_path: Path, reason: str) -> None:
    table = make(tmp_path / "t", *FILES[reason])
    file = table / FILES[reason][0]
    for part in {file, file.parent} - {table}:
        with pytest.raises(ConfigError, match=rf"^data\.path: {part} belongs to {reason[:12]}.*{table}, and only"):
            plan_lake(part)
        with pytest.raises(ConfigError, match=f"belongs to {reason[:12]}"):
            check_no_table(open_storage("/"), str(part), "data.path")


@pytest.mark.parametrize("hint", ["metadata/version-hint.text", "metadata/v3.gz.metadata.json"])
def test_the_metadata_of_iceberg_has_several_names(tmp_path: Path, hint: str) -> None:
    with pytest.raises(ConfigError, match=ICEBERG):
        plan_lake(make(tmp_path, "data/f.parquet", hint))


def test_a_partition_of_hudi_is_marked_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=HUDI):
        plan_lake(make(tmp_path, "f.parquet", ".hoodie_partition_metadata"))


def test_names_that_tables_use_are_no_tables(tmp_path: Path) -> None:
    lake = make(tmp_path, *(f"{name}/f.parquet" for name in ("metadata", "data", "base_1", "delta_1_2", "hoodie")))
    assert plan_lake(lake).rows(Stream.TRAIN) == 5
    assert plan_lake(lake / "data").rows(Stream.TRAIN) == 1
    check_no_table(open_storage("/"), str(lake), "data.path")


def test_files_of_a_streaming_query_are_sparks_to_list(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake", "part-0.parquet", "_spark_metadata/0")
    with pytest.raises(NotPlainError, match=rf"a streaming query wrote {lake}, and its log tells which files belong"):
        plan_lake(lake)


def test_what_lies_above_is_looked_at_as_far_as_one_may(tmp_path: Path) -> None:
    class Locked(LocalStorage):
        def stat(self, path: str) -> FileEntry:
            if path.startswith(f"{tmp_path}/_"):
                raise StoragePermissionError("you may not")
            return super().stat(path)

    check_no_table(Locked(), str(make(tmp_path / "lake", "f.parquet")), "data.path")
    with pytest.raises(StorageNotFoundError):
        check_no_table(Locked(), f"{tmp_path}/lake/*.parquet", "data.path")
