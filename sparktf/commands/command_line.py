"""The words of the console script: commands, options, help, and what is said of words that are none of these.

`sparktf.commands.cli` does what they ask.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from sparktf.rundir import WAIT_HELP
from sparktf.version import __version__

SHELLS = ("bash", "zsh", "fish")
"""Shells that complete commands and options."""

SCHEDULERS = ("airflow", "cron", "oozie", "systemd")
"""Schedulers that there are files for."""

_SET_HELP = "override a key, e.g. --set train.epochs=3"
_WHERE_HELP = "where the runs are (default: $SPARKTF_OUTPUT)"

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class CommandLine(NamedTuple):
    """The parser of all words, and that of each command."""

    parser: argparse.ArgumentParser
    commands: Mapping[str, argparse.ArgumentParser]

    def parse(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Returns the arguments, with the name of the `command` and the `flags` that are for another program.

        A wrong line ends the process with 2, after the usage of its command.
        """
        words = list(sys.argv[1:] if argv is None else argv)
        if words and not words[0].startswith("-") and words[0] not in self.commands:
            known = _nearest(words[0], self.commands) or f": there are {', '.join(self.commands)}"
            self.parser.error(f"there is no command {words[0]!r}{known}")
        arguments, others = self.parser.parse_known_args(words)
        if others and not arguments.takes_flags:
            command = self.commands[arguments.command]
            options = [option.lstrip("-") for action in command._actions for option in action.option_strings]
            near = _nearest(others[0].partition("=")[0].lstrip("-"), options, "--")
            command.error(f"unrecognized arguments: {' '.join(others)}{near}")
        arguments.flags = others
        return arguments

    def help(self, command: str | None) -> str:
        """Returns the help of a command, or of all; an unknown one ends the process with 2."""
        if command is None:
            return self.parser.format_help()
        if command not in self.commands:
            self.commands["help"].error(f"there is no command {command!r}{_nearest(command, self.commands)}")
        return self.commands[command].format_help()


def command_line() -> CommandLine:
    """Returns the console script's."""
    parser = argparse.ArgumentParser(prog="sparktf", description="TensorFlow training on the Spark cluster.")
    parser.add_argument("--version", action="version", version=f"sparktf {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_jobs(commands)
    _add_runs(commands)
    _add_model_commands(commands)
    _add_own(commands)
    for name, command in commands.choices.items():
        command.set_defaults(command=name, takes_flags=name == "tensorboard")
    return CommandLine(parser, commands.choices)


def _nearest(word: str, choices: Iterable[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f": did you mean {prefix}{near[0]}?" if near else ""


def _positive(text: str) -> int:
    """Parses a number of runs, for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _with_config(commands: Commands, name: str, summary: str, *, dated: bool = True) -> argparse.ArgumentParser:
    """Adds a command that takes a configuration."""
    command = _command(commands, name, summary)
    command.add_argument("config", metavar="CONFIG", help="YAML file")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=_SET_HELP)
    if dated:
        command.add_argument("--date", metavar="YYYY-MM-DD", help="day that fills {{date}}, {{date-7}}, ...")
    return command


def _command(commands: Commands, name: str, summary: str, more: str = "") -> argparse.ArgumentParser:
    """Adds a command whose summary stands in its own help, too."""
    return commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {more}".strip())


def _add_jobs(commands: Commands) -> None:
    """Adds the commands over a configuration."""
    check = _with_config(commands, "check", "resolve and validate a configuration, and show it")
    check.add_argument(
        "--deep",
        action=argparse.BooleanOptionalAction,
        help="all that a run does before it holds anything, with Spark on this machine, and the model, built in a "
        "process of its own; --no-deep: the file alone "
        "(default: what takes no Spark)",
    )
    check.add_argument("--master", help="Spark's master, which must have room (default: what a run here would take)")
    plan = _with_config(commands, "plan", "say all that can be said of a run before it holds anything")
    plan.add_argument("--run-id", metavar="ID", help="names the run (default: --date)")
    plan.add_argument("--master", help="Spark's master (default: what a run here would take)")
    plan.add_argument("--json", action="store_true", help="one JSON document with the same facts")
    doctor = _command(
        commands, "doctor", "say what on this machine and its cluster would stop a run, and how to mend it"
    )
    doctor.add_argument("--config", metavar="FILE", help="a configuration, whose needs are looked at")
    doctor.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=_SET_HELP)
    doctor.add_argument("--date", metavar="YYYY-MM-DD", help="day that fills its {{date}} (default: today)")
    doctor.add_argument(
        "--nodes", action="store_true", help="also the nodes, by a small Spark application: it takes a run's executors"
    )
    doctor.add_argument("--json", action="store_true", help="one JSON document with the same facts")
    train = _with_config(commands, "train", "train with Spark on this machine; on a cluster: submit")
    train.add_argument("--run-id", metavar="ID", help="names the run (default: --date); the same id again resumes it")
    train.add_argument("--wait", action="store_true", help=WAIT_HELP)
    score = _with_config(commands, "predict", "score the day's rows with Spark on this machine (section predict)")
    score.add_argument(
        "--model", metavar="MODEL", help="published, as-of, run:<id>, or a path (default: predict.model)"
    )
    for job in (train, score):
        job.add_argument("--master", metavar="MASTER", help="local[n] (default: as many slots as it needs)")
    submit = _with_config(commands, "submit", "run spark-submit for a configuration, and wait for the run's verdict")
    submit.add_argument("--run-id", metavar="ID", help="names the run (default: --date); the same id again resumes it")
    submit.add_argument("--wait", action="store_true", help=WAIT_HELP)
    submit.add_argument("--predict", action="store_true", help="score the day's rows (section predict), train nothing")
    submit.add_argument("--model", metavar="MODEL", help="to score with: published, as-of, run:<id>, or a path")
    submit.add_argument("--dry-run", action="store_true", help="print the spark-submit line, and do nothing")
    submit.add_argument("--detach", action="store_true", help="in cluster mode: end once YARN has the application")
    summary = "submit a run for each of several dates, and pass over those done"
    many = _with_config(commands, "backfill", summary, dated=False)
    many.add_argument("--from", dest="first", required=True, metavar="YYYY-MM-DD", help="first date")
    many.add_argument("--to", dest="last", required=True, metavar="YYYY-MM-DD", help="last date")
    many.add_argument("--every", default="1d", metavar="DAYS", help="between two dates (default: 1d)")
    many.add_argument("--parallel", type=_positive, default=1, metavar="N", help="runs at once (default: 1)")
    many.add_argument("--dry-run", action="store_true", help="show how the run of each date stands, and do nothing")
    schedule = _command(commands, "schedule", "write what has a scheduler run a configuration each night")
    schedule.add_argument("scheduler", choices=SCHEDULERS, help="which one")
    schedule.add_argument(
        "--to", type=Path, default=Path(), metavar="FOLDER", help="where (default: here); no file is replaced"
    )
    pack = _command(commands, "pack", "pack this virtual environment for YARN's containers")
    pack.add_argument(
        "--output", type=Path, default=Path("env.tar.gz"), metavar="FILE", help="default: env.tar.gz; or a .tar"
    )


def _add_runs(commands: Commands) -> None:
    """Adds the commands that look at runs."""
    runs = _command(commands, "runs", "list the runs that have ended, the last one first (output.history)")
    runs.add_argument(
        "name", metavar="NAME", nargs="?", help="runs of this name (default: the configuration's, or all)"
    )
    runs.add_argument("--failed", action="store_true", help="only those that came to no model")
    runs.add_argument("--since", metavar="DAY", help="only those that began since 2026-11-20 (UTC), or 36h or 7d ago")
    runs.add_argument("--json", action="store_true", help="a line of JSON for each run, with all that is kept of it")
    expect = "end with 4 where none has ended within this time and none is under way: 26h"
    runs.add_argument("--expect", metavar="TIME", help=expect)
    show = _command(commands, "show", "show how a run went; one that is under way is followed")
    show.add_argument("run", metavar="RUN", help="NAME/RUN_ID, RUN_ID with --config, or the path of a run's folder")
    diff = _command(commands, "diff", "show in what two runs differ: configuration, data, result")
    diff.add_argument("first", metavar="RUN", help="as of show")
    diff.add_argument("second", metavar="RUN")
    report = _command(commands, "report", "write the page of a run, also of one that is under way")
    report.add_argument("run", metavar="RUN", help="as of show")
    report.add_argument("--to", type=Path, metavar="FILE", help="where (default: NAME-RUN_ID.html)")
    suggest = _command(
        commands,
        "suggest-checks",
        "write a section data.checks, to be edited, from what a name's last runs have measured of their data",
        "What the present checks have, those of --config or of the last run, is kept, or changed where nights say so.",
    )
    suggest.add_argument(
        "run", metavar="NAME|RUN", nargs="?", help="a name (default: the configuration's), or a run and those before it"
    )
    summary = "show a run, or all runs of a name, in TensorBoard, and follow them"
    more = "Options that are not here are TensorBoard's own, and go last."
    board = _command(commands, "tensorboard", summary, more)
    board.add_argument("run", metavar="NAME|RUN", help="a name, or a run as of show")
    board.add_argument("--host", default="127.0.0.1", help="where it listens (default: %(default)s)")
    board.add_argument("--port", type=int, default=6006, help="0 for any that is free (default: %(default)s)")
    for command in (runs, show, diff, report, suggest, board):
        _add_where(command)


def _add_where(command: argparse.ArgumentParser) -> None:
    """Adds the options that say where runs are, the same for each command that asks for them."""
    command.add_argument("--output", metavar="PATH", help=_WHERE_HELP)
    command.add_argument("--config", metavar="FILE", help="a configuration, whose output and name are meant")


def _add_model_commands(commands: Commands) -> None:
    models = _command(commands, "models", "list the published models of a name")
    rollback = _command(commands, "rollback", "make an earlier published model the current one")
    for command in (models, rollback):
        command.add_argument("name", metavar="NAME", nargs="?", help="whose models (default: the configuration's)")
    rollback.add_argument("--to", type=int, metavar="VERSION", help="which one (default: the one before the current)")
    promote = _command(commands, "promote", "publish the model of a run, whatever day it is of")
    promote.add_argument("run", metavar="RUN", help="as of show")
    for command in (models, rollback, promote):
        _add_where(command)


def _add_own(commands: Commands) -> None:
    """Adds the commands about the console script itself."""
    init = _command(commands, "init", "write a lake, a model and a night to begin with (docs/nights/first-night.md)")
    where = "where (default: here); no file is replaced"
    init.add_argument("folder", type=Path, metavar="FOLDER", nargs="?", default=Path(), help=where)
    helped = _command(commands, "help", "show this, or the help of a command")
    helped.add_argument("about", metavar="COMMAND", nargs="?")
    _command(commands, "version", "show the version")
    more = (
        'For bash: eval "$(sparktf completion bash)" in ~/.bashrc; for zsh the same, after compinit, in ~/.zshrc; '
        "for fish: sparktf completion fish > ~/.config/fish/completions/sparktf.fish"
    )
    completion = _command(commands, "completion", "write what a shell needs to complete commands and options", more)
    completion.add_argument("shell", choices=SHELLS)
