"""A schedule on the shared cluster: one configuration, submitted night after night, and what people see of it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from cluster.churn import ROWS, churn_job, customers, date_of
from cluster.submission import SMALL_CONF, SPARKTF, Submission, environment_of
from lxml import html

from minihadoop import MiniHadoop
from sparktf.results.result import RunResult

HERE = Path(__file__).parent
EPOCHS = 2


class Night(NamedTuple):
    """A night that has ended.

    Attributes:
        said: What its submission printed.
        row: Its row of the history.
    """

    result: RunResult
    said: str
    row: dict[str, Any]


class Schedule:
    """A configuration and its model in a folder, its lake and runs in HDFS.

    Attributes:
        slowest_start_s: Seconds that the slowest night took from its submission to its first update.
    """

    def __init__(self, hadoop: MiniHadoop, folder: Path) -> None:
        self.hadoop = hadoop
        self.folder = folder
        self._lake, self.runs = f"/lake/{folder.name}", f"/runs/{folder.name}"
        self.serving = f"{self.runs}/churn/serving"
        submit = {"driver_memory_mib": 512, "executor_memory_mib": 512, "deploy_mode": "client", "conf": SMALL_CONF}
        self.job = churn_job(self._lake, self.runs, train={"epochs": EPOCHS}, submit=submit)
        self.slowest_start_s = 0.0
        for module in ("churn_model.py", "churn_gate.py"):
            shutil.copy(HERE / module, folder)

    def deliver(self, day: int, **faults: bool) -> None:
        """Puts a day's partition into the lake, in place of what was there."""
        partition = f"{self._lake}/date={date_of(day)}"
        self.hadoop.hdfs.delete(partition)
        self.hadoop.hdfs.put(f"{partition}/part-0.parquet", customers(day, **faults))
        self.hadoop.hdfs.put(f"{partition}/_SUCCESS", b"")

    # ---- a night ----

    def submit(self, day: int, *options: str, copy: str = "", **program: Any) -> Submission:
        """Begins the night of a day; `copy`: of configuration and model in a folder of that name."""
        date = (date_of(day),) if program else ("--date", date_of(day))
        folder = self.folder / copy
        if copy:
            folder.mkdir()
            shutil.copy(HERE / "churn_model.py", folder)
        return Submission(self.hadoop, folder, self.job, *date, *options, **program)

    def backfill(self, first: int, last: int, *options: str) -> Submission:
        """Begins the nights of days that nobody has run to the end yet."""
        dates = ("--from", date_of(first), "--to", date_of(last))
        return Submission(self.hadoop, self.folder, self.job, *dates, *options, program=(*SPARKTF, "backfill"))

    def night(self, day: int, code: int, *options: str) -> Night:
        """Runs the night of a day to its end."""
        begun_s = time.time()
        with self.submit(day, *options) as submission:
            night = self.ended(submission, day, code)
        if night.result.attempts:
            end_s = night.result.seconds["train"] + night.result.seconds["publish"]
            self.slowest_start_s = max(self.slowest_start_s, time.time() - begun_s - end_s)
        return night

    def ended(self, submission: Submission, day: int, code: int) -> Night:
        """Waits for the end of a day's night; asserts what is so of each that ends with this exit code."""
        found, said = submission.wait(), submission.output()
        print(said)  # seen where the test fails
        assert found == code, said
        result = self.result(day)
        rows = pq.read_table(io.BytesIO(self._get(f"_runs/name=churn/{date_of(day)}.parquet"))).to_pylist()
        assert [(row["verdict"], str(row["date"]), row["cause"]) for row in rows] == [
            (result.verdict, date_of(day), result.error.message if result.error else None)
        ]
        assert (result.verdict, result.name, result.date) == (code, "churn", date_of(day))
        assert (result.error is None) == (code == 0), result.error
        assert rows[0]["rows"] == result.rows_trained
        for epoch in result.rows:
            assert not epoch.complete or epoch.planned == epoch.fed == epoch.trained == ROWS
        return Night(result, said, rows[0])

    def result(self, day: int) -> RunResult:
        """Returns what result.json says of a day."""
        return RunResult.model_validate_json(self._get(f"churn/{date_of(day)}/result.json"))

    def trainers_log(self, day: int) -> str:
        """Returns what the only trainer of a day said."""
        (log,) = self.hadoop.hdfs.names(f"{self.runs}/churn/{date_of(day)}/logs")
        return self._get(f"churn/{date_of(day)}/logs/{log}").decode()

    # ---- what readers see ----

    def current(self) -> int:
        """Returns the version that readers take."""
        return int(self._get("churn/serving/CURRENT"))

    def versions(self) -> list[int]:
        """Returns the versions that TensorFlow Serving sees."""
        return sorted(int(name) for name in self.hadoop.hdfs.names(self.serving) if name.isdigit())

    def manifest(self, version: int) -> dict[str, Any]:
        """Returns what a version says that it is."""
        said: dict[str, Any] = json.loads(self._get(f"churn/serving/{version}/MANIFEST.json"))
        return said

    def assert_published(self, version: int, day: int) -> None:
        """Asserts that readers have the model of a day, as this version."""
        assert (self.current(), max(self.versions())) == (version, version)
        manifest = self.manifest(version)
        assert (manifest["name"], manifest["run_id"], manifest["date"]) == ("churn", date_of(day), date_of(day))
        folder = f"{self.serving}/{version}"
        assert {"saved_model.pb", "model.keras", "assets.json", "MANIFEST.json"} <= set(self.hadoop.hdfs.names(folder))
        files = {file["name"] for file in manifest["files"]}
        assert {"saved_model.pb", "model.keras", "predictions.npz", "statistics.json", "metrics.json"} <= files

    # ---- what people see ----

    def page(self, path: str) -> Any:
        """Returns a page of the runs' folder, as lxml reads it."""
        return html.fromstring(self._get(f"churn/{path}"))

    def sparktf(self, *arguments: str, code: int = 0) -> str:
        """Returns what a command says, typed beside the configuration."""
        done = subprocess.run(
            [*SPARKTF, *arguments],
            cwd=self.folder,
            env={**environment_of(self.hadoop), "SPARKTF_OUTPUT": self.runs, "COLUMNS": "140"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def _get(self, path: str) -> bytes:
        return self.hadoop.hdfs.get(f"{self.runs}/{path}")
