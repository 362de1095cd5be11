"""Runs of jobs/train.py as users start them, and what the trainers' calls into TensorFlow left behind."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import yaml
from _lake import Schema

HERE = Path(__file__).parent
TIMEOUT_S = 1800


class Call(NamedTuple):
    """The end of one call of a trainer into TensorFlow.

    Attributes:
        step: Updates made so far.
        resident: Bytes of the process in memory.
        cpu_s: Processor time of the process so far.
    """

    time_s: float
    step: int
    resident: int
    cpu_s: float


class Run(NamedTuple):
    """One run.

    Attributes:
        began_s: When the run began, within Spark.
        seconds: How long it took.
        submitted_s: How long spark-submit took, with Spark's own start and end.
        trainers: The calls of each trainer.
    """

    began_s: float
    seconds: float
    submitted_s: float
    trainers: list[list[Call]]


def submit(
    folder: Path,
    work: Path,
    schema: Schema,
    *,
    workers: int,
    batch_size: int,
    epochs: int = 1,
    slots: int = 0,
    meanwhile: Callable[[Path], None] | None = None,
    **data: Any,
) -> Run:
    """Trains the benchmark's model with spark-submit on local[workers + slots]; ends the process if that fails.

    Args:
        slots: For feeders.
        meanwhile: Called with `work` on a thread while the run goes on; may end trainers.
        data: Further settings of the data section.
    """
    config = {
        "name": "bench",
        "model": "_mlp:build",
        "params": {"times": str(work)},
        "data": {"path": str(folder), "inputs": {"x": ["x*"]}, "targets": {"y": "y"}, **data},
        "cluster": {"workers": workers},
        "train": {"batch_size": batch_size, "epochs": epochs},
        "output": {"path": str(work / "runs")},
    }
    (work / "config.yaml").write_text(yaml.safe_dump(config))
    # As an installation does: where Python may write none of its own, each process would compile all that it imports.
    compileall.compile_dir(HERE.parent / "sparktf", quiet=1)
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command: list[str | Path] = [
        spark_submit,
        "--master",
        f"local[{workers + slots}]",
        "--conf",
        "spark.ui.enabled=false",
    ]
    command += [HERE.parent / "jobs" / "train.py", "--config", work / "config.yaml"]
    path = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    started = time.time()
    if meanwhile is not None:
        threading.Thread(target=meanwhile, args=(work,), daemon=True).start()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    submitted_s = time.time() - started
    if done.returncode:
        raise SystemExit(f"the run ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    (result_file,) = (work / "runs").glob("bench/*/result.json")
    result = json.loads(result_file.read_text())
    trainers = [[Call(*json.loads(line)) for line in file.read_text().splitlines()] for file in work.glob("*.jsonl")]
    steps = {calls[-1].step for calls in trainers}
    fewest = epochs * -(-schema.rows // batch_size)
    # Where Spark feeds, workers run dry at different times, and the last updates of an epoch are smaller.
    is_whole = len(steps) == 1 and min(steps) >= fewest if slots else steps == {fewest} or meanwhile is not None
    if result["rows_trained"] != epochs * schema.rows or not is_whole:
        raise SystemExit(f"{result['rows_trained']} of {epochs * schema.rows} rows in {steps} updates were trained")
    return Run(result_file.stat().st_mtime - result["duration_s"], result["duration_s"], submitted_s, trainers)
