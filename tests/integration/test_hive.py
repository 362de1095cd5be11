"""Tables of a Hive metastore: made by one application, found by the session that a run gets in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml
from integration.rows import job
from integration.sandbox import Sandbox

HIVE_SITE = """\
<configuration>
  <property>
    <name>javax.jdo.option.ConnectionURL</name>
    <value>jdbc:derby:;databaseName={folder}/metastore;create=true</value>
  </property>
  <property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
  <property><name>hive.metastore.schema.verification</name><value>false</value></property>
</configuration>
"""

MAKE_A_TABLE = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").enableHiveSupport().getOrCreate()
spark.sql("create database shop")
rows = spark.range(40).selectExpr("id", "cast(id as float) a", "cast(id as float) b", "cast(id as float) y")
rows.write.saveAsTable("shop.sales")
spark.stop()
"""


def test_a_table_of_the_hive_metastore_is_found_and_planned(sandbox: Sandbox, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "hive-site.xml").write_text(HIVE_SITE.format(folder=tmp_path), encoding="utf-8")
    defaults = {**sandbox.settings("local[2]", {}), "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in defaults.items()), encoding="utf-8")
    (tmp_path / "leaf.py").write_text("def build(params, assets): ...\n", encoding="utf-8")
    environment = {**sandbox.environment(), "SPARK_CONF_DIR": str(conf)}
    environment["SPARK_SUBMIT_OPTS"] += f" -Dderby.stream.error.file={tmp_path}/derby.log"

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            cwd=sandbox.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    made, said = run("-c", MAKE_A_TABLE)
    assert made == 0, said
    config = job(tmp_path, sandbox.runs, "leaf:build")
    config["data"] = {"table": "shop.sales", "inputs": {"x": ["a", "b"]}, "targets": {"y": "y"}}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    checked, said = run("-m", "sparktf.cli", "check", str(tmp_path / "c.yaml"), "--deep")
    assert checked == 0, said
    assert "# data: read directly by the trainers, a plain scan of" in said
    assert "# data: 40 rows of train in" in said
    assert not os.listdir(sandbox.cwd)
