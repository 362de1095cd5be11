"""The process of `application.Application`: commands on stdin, answers on stdout, one JSON line each."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from sparktf import Cluster, JobConfig, RunResult, SparkTFError, train
from sparktf.predict.dated import score


def main() -> None:
    """Serves commands until the end of stdin."""
    # Whatever Spark prints goes to stderr: stdout belongs to the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    sys.path.append(str(Path(__file__).parents[2] / "jobs"))
    builder = SparkSession.builder.appName("sparktf tests")
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    answer({"to": 0})
    kept = Kept(spark)
    for line in sys.stdin:
        command = json.loads(line)
        number = command.pop("number")
        follow(spark, kept, command, lambda message, to=number: answer({**message, "to": to}))  # type: ignore[misc]
    kept.close()
    spark.stop()


class Kept:
    """The gang that most trainings share: reserved by the first of them, and held to the end."""

    def __init__(self, spark: SparkSession) -> None:
        self.shown = io.StringIO()
        self._spark = spark
        self._cluster: Cluster | None = None

    def get(self, config: dict[str, Any]) -> Cluster:
        """Returns the gang; the first time it has been reserved by a training as the configuration says."""
        if self._cluster is None:
            cluster = Cluster(self._spark, JobConfig.model_validate(config), console_on(self.shown))
            try:
                cluster.train()
            except BaseException:
                cluster.close()
                raise
            self._cluster = cluster
            self.shown.truncate(self.shown.seek(0))
        return self._cluster

    def close(self) -> None:
        """Ends the gang."""
        if self._cluster is not None:
            self._cluster.close()


def console_on(shown: io.StringIO) -> Console:
    """Returns a console whose lines a test can look for."""
    return Console(file=shown, width=160, soft_wrap=True)


def follow(spark: SparkSession, kept: Kept, command: dict[str, Any], answer: Callable[[dict[str, Any]], None]) -> None:
    """Carries out one command."""
    shown = io.StringIO()
    console = console_on(shown)
    if "py_file" in command:
        spark.sparkContext.addPyFile(command["py_file"])
        answer({"added": command["py_file"]})
    elif "collect" in command:
        answer({"rows": [list(row) for row in frame(spark, **command["collect"]).collect()]})
    elif "score" in command:
        scored = score(spark, JobConfig.model_validate(command["score"]).for_day(date.fromisoformat(command["day"])))
        answer({"rows": scored.rows, "version": scored.version, "place": scored.place})
    elif "train" in command:
        config = JobConfig.model_validate(command["train"])
        if command["beside"]:
            config = config.in_folder(Path(command["beside"]))
        data = frame(spark, **command["frame"]) if command["frame"] else None
        run_id, gang = command["run_id"], command["gang"]
        if gang is None:
            answer(outcome(lambda: train(spark, config, data, run_id=run_id, console=console), shown))
        else:
            answer(outcome(lambda: kept.get(gang).train(config, data, run_id=run_id), kept.shown))
    else:
        configs = [JobConfig.model_validate(config) for config in command["together"]]
        with Cluster(spark, configs[0], console) as cluster:
            for config in configs:
                answer(outcome(lambda config=config: cluster.train(config), shown))  # type: ignore[misc]


def frame(spark: SparkSession, builder: str, options: dict[str, Any]) -> DataFrame | RDD[Any]:
    """Returns the DataFrame or RDD that a `module:function` of `cases` makes."""
    module, _, function = builder.partition(":")
    made: DataFrame | RDD[Any] = getattr(importlib.import_module(module), function)(spark, **options)
    return made


def outcome(run: Callable[[], RunResult], shown: io.StringIO) -> dict[str, Any]:
    """Runs a training; returns how it ended, in the form of `application.Outcome`."""
    try:
        return ended(None, run(), shown)
    except SparkTFError as error:
        return ended(error, error.result, shown)
    except KeyboardInterrupt as error:
        return ended(error, None, shown)


def ended(error: BaseException | None, result: RunResult | None, shown: io.StringIO) -> dict[str, Any]:
    """Returns an outcome, with what the console has shown since the last one."""
    output = shown.getvalue()
    shown.seek(0)
    shown.truncate()
    return {
        "error": "" if error is None else type(error).__name__,
        "message": "" if error is None else str(error),
        "verdict": int(error.verdict) if isinstance(error, SparkTFError) else 0,
        "result": None if result is None else result.model_dump(mode="json"),
        "output": output,
    }


if __name__ == "__main__":
    main()
