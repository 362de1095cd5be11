"""The process of `application.Application`: commands on stdin, answers on stdout, one JSON line each."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from sparktf import Cluster, JobConfig, RunResult, SparkTFError, train


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
    for line in sys.stdin:
        command = json.loads(line)
        number = command.pop("number")
        follow(spark, command, lambda message, to=number: answer({**message, "to": to}))  # type: ignore[misc]
    spark.stop()


def follow(spark: SparkSession, command: dict[str, Any], answer: Callable[[dict[str, Any]], None]) -> None:
    """Carries out one command."""
    shown = io.StringIO()
    console = Console(file=shown, width=160, soft_wrap=True)
    if "py_file" in command:
        spark.sparkContext.addPyFile(command["py_file"])
        answer({"added": command["py_file"]})
    elif "collect" in command:
        answer({"rows": [list(row) for row in frame(spark, **command["collect"]).collect()]})
    elif "train" in command:
        config = JobConfig.model_validate(command["train"])
        if command["beside"]:
            config = config.in_folder(Path(command["beside"]))
        data = frame(spark, **command["frame"]) if command["frame"] else None
        answer(outcome(lambda: train(spark, config, data, run_id=command["run_id"], console=console), shown))
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
