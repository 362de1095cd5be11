"""The driver's process: arguments, configuration, run, exit code."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparktf.config.job import JobConfig
from sparktf.config.load import load_config
from sparktf.console.plain_console import let_go_of_output, say
from sparktf.driver.spark.differences import check_pyspark
from sparktf.errors import PreflightError, SparkTFError, Verdict
from sparktf.process.supported import installed_servers_complaint, lacks
from sparktf.process.verdict_file import named_verdict_file, tell_verdict
from sparktf.rundir import WAIT_HELP, chosen_run_id
from sparktf.told import told, told_lines, words_of_error
from sparktf.version import __version__
from sparktf.wire.node_look import NodesFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_INTERRUPTED = 130


def parse(argv: Sequence[str] | None = None) -> tuple[JobConfig, str | None, bool]:
    """Returns the configuration and the run id of a command line, and whether to wait for another owner."""
    parser = _parser(
        "Train a TensorFlow model on this Spark application's executors.",
        "value of {{date}} in the configuration, and the default run id",
    )
    parser.add_argument("--run-id", help="names the run; the same id again resumes it")
    parser.add_argument("--wait", action="store_true", help=WAIT_HELP)
    args = parser.parse_args(argv)
    return load_config(args.config, args.set, args.date), chosen_run_id(args.run_id, args.date), args.wait


def parse_predict(argv: Sequence[str] | None = None) -> tuple[JobConfig, str | None]:
    """Returns the configuration and the model of a command line."""
    parser = _parser(
        "Score the rows of a day with a model that was trained here.",
        "value of {{date}} in the configuration, and of the partition that is replaced",
    )
    parser.add_argument("--model", help="published, as-of, run:<id>, or a path (default: predict.model)")
    args = parser.parse_args(argv)
    return load_config(args.config, args.set, args.date), args.model


def parse_look(argv: Sequence[str] | None = None) -> tuple[JobConfig, Path]:
    """Returns the configuration and the file for what is found of a command line."""
    parser = _parser("Look at the nodes that a run would get.", "value of {{date}} in the configuration")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="where to write what is found")
    args = parser.parse_args(argv)
    return load_config(args.config, args.set, args.date), args.to


def _parser(description: str, date: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", required=True, help="YAML file (docs/use/configuration.md)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override, e.g. train.epochs=3")
    parser.add_argument("--date", metavar="YYYY-MM-DD", help=date)
    return parser


def interrupt(signum: int, frame: object) -> None:
    """Turns SIGTERM (a scheduler's way to stop a job) into Ctrl-C, so that everything is stopped in order."""
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Trains as a command line says; returns the exit code."""
    return _in_order(lambda started: _train(*parse(argv), started))


def predict(argv: Sequence[str] | None = None) -> int:
    """Scores as a command line says; returns the exit code."""
    return _in_order(lambda started: _predict(*parse_predict(argv), started))


def tell_of_nodes(argv: Sequence[str] | None = None) -> int:
    """Looks at the nodes of a command line's configuration, for `sparktf doctor`; returns the exit code."""
    return _in_order(lambda started: _look(*parse_look(argv), started))


def run_training(config: JobConfig, run_id: str | None, wait: bool) -> int:
    """Trains, and stops its Spark; returns the exit code.

    Args:
        wait: For another owner of the run to end.
    """
    return _in_order(partial(_train, config, run_id, wait))


def run_scoring(config: JobConfig, model: str | None) -> int:
    """Scores with a model (default: predict.model), and stops its Spark; returns the exit code."""
    return _in_order(partial(_predict, config, model))


def _in_order(run: Callable[[list[SparkSession]], None]) -> int:
    """Runs a job and then stops the session that it added to a list; returns the exit code."""
    signal.signal(signal.SIGTERM, interrupt)
    started: list[SparkSession] = []
    asked = named_verdict_file()
    code = EXIT_INTERRUPTED
    try:
        code = _verdict_of(run, started)
    except KeyboardInterrupt:
        say("interrupted")
    except SystemExit:
        asked = None  # a wrong command line, which is no verdict
        raise
    finally:
        tell_verdict(asked, code)
        for spark in started:
            _stop(spark, code)
        let_go_of_output()
    return code


@contextmanager
def _needed() -> Iterator[None]:
    """Wraps the imports of a job. Raises `PreflightError` if this Python lacks one."""
    try:
        yield
    except ImportError as error:
        raise PreflightError(lacks(error)) from error


def _stop(spark: SparkSession, exit_code: int) -> None:
    from sparktf.driver.spark.application import stop_session  # noqa: PLC0415 - as below

    stop_session(spark, exit_code)


def _train(config: JobConfig, run_id: str | None, wait: bool, started: list[SparkSession]) -> None:
    _check_tensorflow(config)
    spark = _session(config, started)
    with _needed():
        from sparktf.api.cluster import train  # noqa: PLC0415 - as below

    train(spark, config, run_id=run_id, wait=wait)


def _look(config: JobConfig, file: Path, started: list[SparkSession]) -> None:
    try:
        spark = _session(config, started)
        with _needed():
            from sparktf.driver.looked_at import look_at_nodes  # noqa: PLC0415 - as below

        found = look_at_nodes(spark, config)
    except SparkTFError as error:
        file.write_text(NodesFound(error=told(words_of_error(error))).model_dump_json(), encoding="utf-8")
        raise
    file.write_text(found.model_dump_json(), encoding="utf-8")


def _check_tensorflow(config: JobConfig) -> None:
    """Refuses this Python's TensorFlow, as the run's checks do, before Spark starts. Raises `PreflightError`."""
    if config.cluster.traits.has_servers and (complaint := installed_servers_complaint()):
        raise PreflightError(complaint)


def _predict(config: JobConfig, model: str | None, started: list[SparkSession]) -> None:
    spark = _session(config, started, scores=True)
    with _needed():
        from sparktf.predict.dated import score  # noqa: PLC0415 - as below

    scored = score(spark, config, model)
    if scored.warning:
        say(f"warning: {scored.warning}", sys.stdout)
    say(scored.in_words(), sys.stdout)


def _session(config: JobConfig, started: list[SparkSession], *, scores: bool = False) -> SparkSession:
    # A session takes ten seconds or more: so said before even pyspark is imported.
    say(f"sparktf {__version__}: starting Spark for {config.name}", sys.stdout)
    with _needed():
        check_pyspark()
        from sparktf.driver.spark.application import start_session  # noqa: PLC0415

    spark = start_session(config, scores=scores)
    started.append(spark)
    signal.signal(signal.SIGINT, interrupt)  # Spark's own handler would cancel the nodes' job, and kill them
    return spark


def _verdict_of(run: Callable[[list[SparkSession]], None], started: list[SparkSession]) -> int:
    try:
        run(started)
    except SparkTFError as e:
        say(f"{type(e).__name__}: {told(words_of_error(e))}")
        return int(e.verdict)
    except Exception:  # noqa: BLE001 - the edge: Python's own exit code would read as "the model failed"
        say(told_lines(traceback.format_exc().rstrip()))
        return int(Verdict.INFRASTRUCTURE)
    return int(Verdict.DONE)
