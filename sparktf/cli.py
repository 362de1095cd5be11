"""The console script `sparktf`: what is not a Spark job of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.syntax import Syntax

from sparktf import __version__
from sparktf.config_load import dump_config, load_config
from sparktf.errors import SparkTFError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0, or the verdict of the error that it has shown."""
    arguments = _parser().parse_args(argv)
    try:
        config = load_config(arguments.config, arguments.set, arguments.date)
    except SparkTFError as error:
        print(error, file=sys.stderr)
        return int(error.verdict)
    _show_yaml(dump_config(config))
    print("ok")
    return 0


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
    return parser


def _show_yaml(text: str) -> None:
    """Prints YAML, in colour where it goes to a terminal; elsewhere untouched, so that it can be piped on."""
    console = Console()
    if console.is_terminal:
        console.print(Syntax(text.rstrip(), "yaml", theme="ansi_dark", background_color="default"))
    else:
        print(text, end="")
