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
from _clock import Call, Clocked, clocked
from _lake import Schema

HERE = Path(__file__).parent
TIMEOUT_S = 1800


class Run(NamedTuple):
    """One run.

    Attributes:
        began_s: When the run began, within Spark.
        seconds: How long it took.
        submitted_s: How long spark-submit took, with Spark's own start and end.
        result: Its result.json.
        clocked: What each trainer that builds the model has written down.
    """

    began_s: float
    seconds: float
    submitted_s: float
    result: dict[str, Any]
    clocked: list[Clocked]

    @property
    def trainers(self) -> list[list[Call]]:
        """The calls of each trainer."""
        return [trainer.calls for trainer in self.clocked]


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
    run = submit_config(config, work, slots=workers + slots, meanwhile=meanwhile)
    steps = {calls[-1].step for calls in run.trainers}
    fewest = epochs * -(-schema.rows // batch_size)
    # Where Spark feeds, workers run dry at different times, and the last updates of an epoch are smaller.
    is_whole = len(steps) == 1 and min(steps) >= fewest if slots else steps == {fewest} or meanwhile is not None
    if run.result["rows_trained"] != epochs * schema.rows or not is_whole:
        raise SystemExit(f"{run.result['rows_trained']} of {epochs * schema.rows} rows in {steps} updates were trained")
    return run


def submit_config(
    config: dict[str, Any], work: Path, *, slots: int, meanwhile: Callable[[Path], None] | None = None
) -> Run:
    """Trains as a configuration says with spark-submit on local[slots]; ends the process if that fails.

    Args:
        config: Its output is below `work`, where the model's trainers write down what they do.
        meanwhile: As of `submit`.
    """
    (work / "config.yaml").write_text(yaml.safe_dump(config))
    # As an installation does: where Python may write none of its own, each process would compile all that it imports.
    compileall.compile_dir(HERE.parent / "sparktf", quiet=1)
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command: list[str | Path] = [spark_submit, "--master", f"local[{slots}]", "--conf", "spark.ui.enabled=false"]
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
    (result_file,) = (work / "runs").glob("*/*/result.json")
    result = json.loads(result_file.read_text())
    began_s = result_file.stat().st_mtime - result["duration_s"]
    return Run(began_s, result["duration_s"], submitted_s, result, clocked(work))
