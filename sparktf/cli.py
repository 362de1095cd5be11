"""The console script `sparktf`: what is not a Spark job of its own."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax

from sparktf import __version__
from sparktf.config.load import load_config, show_config
from sparktf.errors import SparkTFError
from sparktf.rundir import chosen_run_id

_EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0, or the verdict of the error that it has shown."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except SparkTFError as error:
        print(error, file=sys.stderr)
        return int(error.verdict)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _EXIT_INTERRUPTED


def _check(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.config, arguments.set, arguments.date)
    lines: list[str] = []
    if arguments.deep is not False:
        from sparktf.driver.check import check_run  # noqa: PLC0415 - pyspark, which no other command needs
        from sparktf.submit.environment import default_master  # noqa: PLC0415

        master = arguments.master or default_master(config)
        found = check_run(config, master, _say, deep=bool(arguments.deep))
        for error in found.errors:
            _say(str(error))
        if found.errors:
            return int(found.errors[0].verdict)
        lines = [f"# {line}" for line in found.known]
        if found.unknown:
            lines.append(f"# not checked without --deep: {'; '.join(found.unknown)}")
    _show_yaml(show_config(config))
    print(*lines, sep="\n", end="\n" if lines else "")
    print("ok" if config.data.source_key is not None else "ok, for train(spark, config, data): data names no source")
    return 0


def _submit(arguments: argparse.Namespace) -> int:
    from sparktf.submit.command import submit  # noqa: PLC0415 - storage libraries, which no other command needs

    signal.signal(signal.SIGTERM, _interrupt)  # a scheduler's way to stop a job: in order, as on Ctrl-C
    config = load_config(arguments.config, arguments.set, arguments.date)
    beside = Path(arguments.config).absolute().parent
    return submit(config, beside, chosen_run_id(arguments.run_id, arguments.date), dry_run=arguments.dry_run)


def _pack(arguments: argparse.Namespace) -> int:
    from sparktf.submit.pack import pack, this_environment  # noqa: PLC0415

    packed = pack(this_environment(), arguments.output)
    print(
        f"{packed.output}: {packed.nbytes / 1e6:,.0f} MB ({packed.unpacked_nbytes / 1e6:,.0f} MB in {packed.members:,} "
        f"files), {packed.duration_s:.0f} s\n"
        f"The nodes need the interpreter that it stands on at the same path: {packed.base_python}\n"
        f"Name it in submit.archive, or copy it to HDFS once and name that."
    )
    if packed.left_out:
        print(f"Left out, for they look like credentials: {', '.join(packed.left_out)}")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--set` and `--date`, the same for every command that takes a configuration."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a key, e.g. --set train.epochs=3"
    )
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="day that fills {{date}}, {{date-7}}, ...")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sparktf", description="TensorFlow training on the Spark cluster.")
    parser.add_argument("--version", action="version", version=f"sparktf {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="resolve and validate a configuration, and show it")
    check.add_argument("config", metavar="CONFIG", help="YAML file")
    add_config_arguments(check)
    check.add_argument(
        "--deep",
        action=argparse.BooleanOptionalAction,
        help="all that a run does before it holds anything, with Spark on this machine; --no-deep: the file alone "
        "(default: what takes no Spark)",
    )
    check.add_argument("--master", help="Spark's master, which must have room (default: what a run here would take)")
    check.set_defaults(command=_check)
    submit = commands.add_parser("submit", help="run spark-submit for a configuration, and wait for the run's verdict")
    submit.add_argument("config", metavar="CONFIG", help="YAML file")
    add_config_arguments(submit)
    submit.add_argument("--run-id", metavar="ID", help="names the run (default: --date); the same id again resumes it")
    submit.add_argument("--dry-run", action="store_true", help="print the spark-submit line, and do nothing")
    submit.set_defaults(command=_submit)
    pack = commands.add_parser("pack", help="pack this virtual environment for YARN's containers")
    pack.add_argument(
        "--output", type=Path, default=Path("env.tar.gz"), metavar="FILE", help="default: env.tar.gz; or a .tar"
    )
    pack.set_defaults(command=_pack)
    return parser


def _show_yaml(text: str) -> None:
    """Prints YAML, in colour where it goes to a terminal; elsewhere untouched, so that it can be piped on."""
    console = Console()
    if console.is_terminal:
        console.print(Syntax(text.rstrip(), "yaml", theme="ansi_dark", background_color="default"))
    else:
        print(text, end="")


if __name__ == "__main__":
    sys.exit(main())
