"""The driver's process: arguments to configuration to run to exit code.

Runs as a script too: `sparktf submit` ships this file for `spark-submit` to start.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
import warnings
from typing import TYPE_CHECKING

from sparktf.config.job import JobConfig
from sparktf.config.load import load_config
from sparktf.errors import SparkTFError, Verdict
from sparktf.rundir import WAIT_HELP, chosen_run_id
from sparktf.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_INTERRUPTED = 130


def parse(argv: list[str] | None = None) -> tuple[JobConfig, str | None, bool]:
    """Returns the configuration and the run id of a command line, and whether to wait for another owner."""
    parser = argparse.ArgumentParser(description="Train a TensorFlow model on this Spark application's executors.")
    parser.add_argument("--config", required=True, help="YAML file (docs/configuration.md)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override, e.g. train.epochs=3")
    parser.add_argument(
        "--date", metavar="YYYY-MM-DD", help="value of {{date}} in the configuration, and the default run id"
    )
    parser.add_argument("--run-id", help="names the run; the same id again resumes it")
    parser.add_argument("--wait", action="store_true", help=WAIT_HELP)
    args = parser.parse_args(argv)
    return load_config(args.config, args.set, args.date), chosen_run_id(args.run_id, args.date), args.wait


def interrupt(signum: int, frame: object) -> None:
    """Turns SIGTERM (a scheduler's way to stop a job) into Ctrl-C, so that everything is stopped in order."""
    raise KeyboardInterrupt


def main() -> int:
    """Runs the job; returns the exit code."""
    signal.signal(signal.SIGTERM, interrupt)
    # Spark 4 at every start with pandas 3; of pandas we need no more than that Spark's Arrow functions find it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    started: list[SparkSession] = []
    code = EXIT_INTERRUPTED
    try:
        code = _run(started)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        for spark in started:
            _stop(spark, code)
    return code


def _stop(spark: SparkSession, exit_code: int) -> None:
    from sparktf.driver.spark.application import stop_session  # noqa: PLC0415 - as below

    stop_session(spark, exit_code)


def _run(started: list[SparkSession]) -> int:
    """Starts a session, which is put into `started`, and trains; returns the verdict."""
    try:
        config, run_id, wait = parse()
        # A session takes ten seconds or more: so said before even pyspark is imported.
        print(f"sparktf {__version__}: starting Spark for {config.name}", flush=True)
        from sparktf.cluster import train  # noqa: PLC0415
        from sparktf.driver.spark.application import start_session  # noqa: PLC0415

        spark = start_session(config)
        started.append(spark)
        signal.signal(signal.SIGINT, interrupt)  # Spark's own handler would cancel the nodes' job, and kill them
        train(spark, config, run_id=run_id, wait=wait)
    except SparkTFError as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return int(e.verdict)
    except Exception:  # noqa: BLE001 - the edge: Python's own exit code would read as "the model failed"
        traceback.print_exc()
        return int(Verdict.INFRASTRUCTURE)
    return int(Verdict.DONE)


if __name__ == "__main__":
    sys.exit(main())
