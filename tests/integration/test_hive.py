"""Tables of a Hive metastore: those that runs read, and the one that their history is."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import yaml
from integration.metastore import Metastore
from integration.rows import job
from integration.sandbox import REPO, Sandbox

from sparktf.nightly.history import RunRecord, keep_record
from sparktf.rundir import RunDirectory
from sparktf.storage.local import LocalStorage

MAKE_A_TABLE = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").enableHiveSupport().getOrCreate()
spark.sql("create database shop")
rows = spark.range(40).selectExpr("id", "cast(id as float) a", "cast(id as float) b", "cast(id as float) y")
rows.write.saveAsTable("shop.sales")
spark.stop()
"""

READ_THE_HISTORY = r"""
import re
import sys
from pathlib import Path

from pyspark.sql import SparkSession

_, root, page = sys.argv
make, find, *_ = re.search(r"```sql\n(create external .*?)```", Path(page).read_text(), re.DOTALL)[1].split(";")
builder = SparkSession.builder.master("local[1]").config("spark.sql.hive.convertMetastoreParquet", "false")
spark = builder.enableHiveSupport().getOrCreate()
spark.sql(re.sub("location '.*?'", f"location '{root}/_runs'", make))
spark.sql(find)
query = "select name, run_id, date, started, verdict, rows, metrics['validation']['auc'], seconds['train'] from runs"
for row in spark.sql(query + " order by run_id").collect():
    print("row:", *row, sep="|")
spark.stop()
"""

MODEL = """
import keras


def build(params, assets):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model
"""


@pytest.fixture
def metastore(sandbox: Sandbox, tmp_path: Path) -> Metastore:
    return Metastore(sandbox, tmp_path)


@pytest.mark.more(
    "integration/test_scoring.py::test_the_job_is_a_script_for_spark_submit_that_scores_from_table_to_table_of_the_hive_metastore",
    "unit/test_spark_catalog.py::test_each_job_asks_for_the_tables_that_it_names",
    "integration/test_plain_scan.py::test_a_plain_scan_is_read_directly_with_the_rows_that_spark_collects",
)
def test_a_table_of_the_hive_metastore_is_found_and_planned(
    metastore: Metastore, sandbox: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "leaf.py").write_text(MODEL, encoding="utf-8")
    made, said = metastore.run("-c", MAKE_A_TABLE)
    assert made == 0, said
    config = job(tmp_path, sandbox.runs, "leaf:build")
    config["data"] = {"table": "shop.sales", "inputs": {"x": ["a", "b"]}, "targets": {"y": "y"}}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    checked, said = metastore.run("-m", "sparktf.commands.cli", "check", str(tmp_path / "c.yaml"), "--deep")
    assert checked == 0, said
    assert "# data: read directly by the trainers, a plain scan of" in said
    assert "# data: 40 rows of train in" in said
    assert "# model: it is built, takes x and learns y" in said
    assert not os.listdir(sandbox.cwd)


@pytest.mark.more("integration/test_spark_dataframes.py::test_the_history_of_runs_is_a_table_of_spark_as_it_lies")
def test_the_history_of_runs_is_a_table_that_hives_own_reader_reads(metastore: Metastore, tmp_path: Path) -> None:
    storage, began = LocalStorage(), datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
    done = RunRecord("churn", "1", date(2026, 11, 20), began, 0, None, 7, {"validation": {"auc": 0.5}}, {}, None, None)
    failed = RunRecord("clicks", "2", None, began, 1, "why", 0, {}, {"train": 2.5}, None, None)
    for record in (done, failed):
        rundir = RunDirectory(str(tmp_path), record.name, record.run_id)
        keep_record(record, rundir, storage, storage.write_bytes)
    code, said = metastore.run("-c", READ_THE_HISTORY, str(tmp_path), str(REPO / "docs/nights/history.md"))
    assert code == 0, said
    local = began.astimezone().replace(tzinfo=None)
    assert [line for line in said.splitlines() if line.startswith("row:")] == [
        f"row:|churn|1|2026-11-20|{local}|0|7|0.5|None",
        f"row:|clicks|2|None|{local}|1|0|None|2.5",
    ]
