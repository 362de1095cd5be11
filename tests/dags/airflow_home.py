"""A real Airflow with the files of yarn/schedules/airflow in it, as docs/nights/scheduling.md has them installed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from integration.sandbox import REPO

FILES = REPO / "yarn/schedules/airflow"


class Night(NamedTuple):
    """One run of a DAG: task -> its state, and how often it was tried; and what Airflow said."""

    states: dict[str, str]
    tries: dict[str, int]
    said: str


class AirflowHome:
    """An AIRFLOW_HOME with a database of its own."""

    def __init__(self, airflow: Path, folder: Path, smtp_port: int, replaced: Mapping[str, str]) -> None:
        """Installs the plugin and the DAGs.

        Args:
            airflow: The environment that holds Airflow.
            replaced: What stands in another's place in churn.py, as a user would change it.
        """
        self._bin = airflow / "bin"
        self._folder = folder
        shutil.copytree(FILES / "sparktf_airflow", folder / "plugins/sparktf_airflow")
        dags = (FILES / "churn.py").read_text(encoding="utf-8")
        for old, new in replaced.items():
            assert old in dags
            dags = dags.replace(old, new)
        (folder / "dags").mkdir()
        (folder / "dags/churn.py").write_text(dags, encoding="utf-8")
        mail = {"conn_type": "smtp", "host": "127.0.0.1", "port": smtp_port}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "PYTHON", "PYTEST_"))}
        self._environment = {
            **kept,
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps({**mail, "extra": {"disable_ssl": True, "disable_tls": True}}),
        }
        self._call("airflow", "db", "migrate")

    def night(self, dag: str, date: str) -> Night:
        """Runs a DAG for a date: `airflow dags test`."""
        done = self._call("airflow", "dags", "test", dag, date, check=False)
        query = """
            SELECT task_id, task_instance.state, try_number, dag_run.state FROM task_instance
            JOIN dag_run USING (dag_id, run_id) WHERE dag_id = ? AND logical_date LIKE ?
        """
        with sqlite3.connect(self._folder / "airflow.db") as database:
            rows = database.execute(query, (dag, f"{date}%")).fetchall()
        assert rows, done.stdout
        assert (done.returncode == 0) == all(row[3] == "success" for row in rows), done.stdout
        return Night({row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}, done.stdout)

    def set_limit_s(self, seconds: float) -> None:
        """Has applications on YARN take no longer than that."""
        path = self._folder / "dags/churn.py"
        dags = path.read_text(encoding="utf-8")
        path.write_text(
            dags.replace('user="churn",', f'user="churn", give_up_after=timedelta(seconds={seconds}),'),
            encoding="utf-8",
        )

    def python(self, program: str) -> str:
        """Runs a program beside the plugin, in Airflow's environment; returns what it says."""
        return self._call("python", "-c", program, PYTHONPATH=str(FILES)).stdout

    def _call(
        self, program: str, *arguments: str, check: bool = True, **added: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self._bin / program, *arguments],
            env={**self._environment, **added},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout
        return done
