"""The job that scores a schedule's customers day by day: submitted to YARN, killed, and what readers find of it."""

from __future__ import annotations

import io
import random
import sys
import time
from collections import Counter
from typing import NamedTuple

import pyarrow.parquet as pq
from cluster.churn import customers, date_of
from cluster.nights import Schedule
from cluster.submission import SMALL_CONF, Submission, plain_line

from minihadoop.waiting import wait_for

_COLUMNS = ("calls", "complaints")
"""Of customers, who have no numbers: no two of them are alike in both."""


class Seen(NamedTuple):
    """What a reader finds of a day.

    Attributes:
        model: That has predicted all of it.
        customers: How often each is there.
    """

    model: str
    customers: Counter[tuple[float, ...]]


class Scores:
    """Predictions in HDFS for the customers in a schedule's lake."""

    def __init__(self, nights: Schedule) -> None:
        self._hadoop = nights.hadoop
        self._folder = nights.folder / "scores"
        self._folder.mkdir(exist_ok=True)
        self._path = f"/scores/{nights.folder.name}"
        self._hadoop.hdfs.make_folder(self._path)
        source = {"path": nights.job["data"]["path"], "where": "date = '{{date}}'"}
        predict = {"source": source, "output": {"path": self._path}, "columns": {"churned": "chance"}}
        self._job = {**nights.job, "predict": {**predict, "keep": list(_COLUMNS)}}

    def submit(self, day: int, *options: str) -> Submission:
        """Begins to score a day."""
        return Submission(self._hadoop, self._folder, self._job, "--date", date_of(day), "--predict", *options)

    def score_with_plain_spark(self, day: int) -> None:
        """Scores a day by `spark-submit jobs/predict.py`."""
        conf = {
            **SMALL_CONF,
            "spark.pyspark.python": sys.executable,
            "spark.pyspark.driver.python": sys.executable,
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.executor.memoryOverhead": "1g",
        }
        program = (*plain_line("jobs/predict.py", conf), "--config")
        with Submission(self._hadoop, self._folder, self._job, "--date", date_of(day), program=program) as submission:
            assert submission.wait() == 0, submission.output()

    def score(self, day: int, *options: str) -> float:
        """Scores a day to the end; returns how many seconds that took since it began to write."""
        with self.submit(day, *options) as submission:
            self._wait_until_it_writes(submission, self.on_the_way())
            began_s = time.monotonic()
            assert submission.wait() == 0, submission.output()
            assert f"{self._path}/date={date_of(day)}" in submission.output()
        return time.monotonic() - began_s

    def kill_at_random(self, day: int, within_s: float, *options: str) -> None:
        """Scores a day, and kills the driver at some moment after it has begun to write."""
        before, delay_s = self.on_the_way(), random.uniform(0, within_s)
        with self.submit(day, *options) as submission:
            self._wait_until_it_writes(submission, before)
            time.sleep(delay_s)  # whatever it does by then
            submission.kill()
        print(f"killed {delay_s:.2f} s after it has begun to write")  # seen where the test fails

    def seen(self, day: int) -> Seen | None:
        """Returns what readers find, None where there is nothing; asserts that it is whole, and of one model."""
        folder = f"{self._path}/date={date_of(day)}"
        if folder.rpartition("/")[2] not in self._hadoop.hdfs.names(self._path):
            return None
        parts = [name for name in self._hadoop.hdfs.names(folder) if name.endswith(".parquet")]
        rows = [
            row
            for part in parts
            for row in pq.read_table(io.BytesIO(self._hadoop.hdfs.get(f"{folder}/{part}"))).to_pylist()
        ]
        assert all(0 <= row["chance"] <= 1 for row in rows)
        [model] = {row["model_version"] for row in rows}
        return Seen(model, Counter(tuple(row[column] for column in _COLUMNS) for row in rows))

    def on_the_way(self) -> set[str]:
        """Returns the names of the folders that no reader looks into."""
        return {name for name in self._hadoop.hdfs.names(self._path) if name.startswith("_scored-")}

    def _wait_until_it_writes(self, submission: Submission, before: set[str]) -> None:
        def missing() -> str:
            assert submission.is_running, submission.output()
            return "" if self.on_the_way() - before else "no folder has come"

        wait_for("the job writes", missing, 200, lambda: submission.output()[-3000:])


def delivered(day: int) -> Counter[tuple[float, ...]]:
    """Returns the customers of a day, each of whom is there once."""
    table = pq.read_table(io.BytesIO(customers(day)), columns=list(_COLUMNS))
    return Counter(zip(*(table[column].to_pylist() for column in _COLUMNS), strict=True))
