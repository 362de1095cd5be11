"""A Hive metastore for programs under test: the embedded one, which one of them uses at a time."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
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


_PARTITIONS = (
    "select 'found|' || p.PART_NAME || '|' || s.LOCATION || '|' "
    "from PARTITIONS p join TBLS t on p.TBL_ID = t.TBL_ID join SDS s on p.SD_ID = s.SD_ID where t.TBL_NAME = '{table}'"
)


class Metastore:
    """Runs Python with a configuration of Spark that names it."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        conf = folder / "conf"
        conf.mkdir()
        (conf / "hive-site.xml").write_text(_HIVE_SITE.format(folder=folder), encoding="utf-8")
        defaults = {**sandbox.settings("local[2]", {}), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        lines = "".join(f"{key} {value}\n" for key, value in defaults.items())
        (conf / "spark-defaults.conf").write_text(lines, encoding="utf-8")
        self._folder = folder
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

    def partitions(self, table: str) -> list[tuple[str, str]]:
        """Returns the partitions of a table and where they are, as the database itself has them."""
        script = self._folder / "partitions.sql"
        connect = f"connect 'jdbc:derby:{self._folder}/metastore';"
        script.write_text(
            f"{connect}\nmaximumdisplaywidth 2000;\n{_PARTITIONS.format(table=table)};\n", encoding="utf-8"
        )
        # The newest Spark's: the jars of 3.5 are without Derby's tools.
        jars = Path(sysconfig.get_path("purelib")) / "pyspark/jars"
        log = f"-Dderby.stream.error.file={self._folder}/derby.log"
        command = ["java", "-XX:TieredStopAtLevel=1", log, "-cp", f"{jars}/*", "org.apache.derby.tools.ij", str(script)]
        said = subprocess.run(command, cwd=self._cwd, stdout=subprocess.PIPE, text=True, check=True).stdout
        lines = [line.strip().split("|") for line in said.splitlines() if line.startswith("found|")]
        return [(name, place) for _, name, place, _ in lines]
