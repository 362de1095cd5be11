"""The job: `spark-submit jobs/train.py --config nightly.yaml [--set train.epochs=3] [--date D] [--run-id R]`."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback

from sparktf import JobConfig, SparkTFError, Verdict, load_config, train
from sparktf.driver.spark import start_session

EXIT_INTERRUPTED = 130


def parse(argv: list[str] | None = None) -> tuple[JobConfig, str | None]:
    """Returns the configuration and the run id of a command line."""
    parser = argparse.ArgumentParser(description="Train a TensorFlow model on this Spark application's executors.")
    parser.add_argument("--config", required=True, help="YAML file (docs/configuration.md)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override, e.g. train.epochs=3")
    parser.add_argument(
        "--date", metavar="YYYY-MM-DD", help="value of {{date}} in the configuration, and the default run id"
    )
    parser.add_argument("--run-id", help="names the run; the same id again resumes it")
    args = parser.parse_args(argv)
    return load_config(args.config, args.set, args.date), args.run_id or args.date


def interrupt(signum: int, frame: object) -> None:
    """Turns SIGTERM (a scheduler's way to stop a job) into Ctrl-C, so that everything is stopped in order."""
    raise KeyboardInterrupt


def main() -> int:
    """Runs the job; returns the exit code."""
    signal.signal(signal.SIGTERM, interrupt)
    spark = None
    try:
        config, run_id = parse()
        spark = start_session(f"sparktf {config.name}")
        signal.signal(signal.SIGINT, interrupt)  # Spark's own handler would cancel the nodes' job, and kill them
        train(spark, config, run_id=run_id)
    except SparkTFError as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return int(e.verdict)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception:  # noqa: BLE001 - the edge: Python's own exit code would read as "the model failed"
        traceback.print_exc()
        return int(Verdict.INFRASTRUCTURE)
    finally:
        if spark is not None:
            spark.stop()
    return int(Verdict.DONE)


if __name__ == "__main__":
    sys.exit(main())
