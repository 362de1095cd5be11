"""A Hive metastore for programs under test: the embedded one, which one of them uses at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from integration.sandbox import Sandbox

_HIVE_SITE = """\
<configuration>
  <property>
    <name>javax.jdo.option.ConnectionURL</name>
    <value>jdbc:derby:;databaseName={folder}/metastore;create=true</value>
  </property>
  <property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
  <property><name>hive.metastore.schema.verification</name><value>false</value></property>
</configuration>
"""


class Metastore:
    """Runs Python with a configuration of Spark that names it."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        conf = folder / "conf"
        conf.mkdir()
        (conf / "hive-site.xml").write_text(_HIVE_SITE.format(folder=folder), encoding="utf-8")
        defaults = {**sandbox.settings("local[2]", {}), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        lines = "".join(f"{key} {value}\n" for key, value in defaults.items())
        (conf / "spark-defaults.conf").write_text(lines, encoding="utf-8")
        self._cwd = sandbox.cwd
        self._environment = {**sandbox.environment(), "SPARK_CONF_DIR": str(conf)}
        self._environment["SPARK_SUBMIT_OPTS"] += f" -Dderby.stream.error.file={folder}/derby.log"

    def run(self, *arguments: str, program: str = sys.executable) -> tuple[int, str]:
        """Returns the exit code, and what was said."""
        done = subprocess.run(
            [program, *arguments],
            env=self._environment,
            cwd=self._cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout
