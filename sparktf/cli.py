"""The console script `sparktf`: the commands that are not Spark jobs."""

from __future__ import annotations

import argparse
import datetime
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.syntax import Syntax

from sparktf import __version__
from sparktf.clock import SystemClock
from sparktf.config.duration import seconds_of
from sparktf.config.load import load_config, show_config
from sparktf.console.plain_console import PlainConsole, let_go_of_output, say
from sparktf.errors import ConfigError, SparkTFError, Verdict
from sparktf.hadoop import HadoopConf
from sparktf.process.supported import lacks
from sparktf.rundir import WAIT_HELP, chosen_run_id
from sparktf.told import told_lines, words_of_error

if TYPE_CHECKING:
    from sparktf.runs.finding import FoundRun, RunsRoot
    from sparktf.storage.file_systems import FileSystems

_EXIT_INTERRUPTED = 130
_SET_HELP = "override a key, e.g. --set train.epochs=3"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0, or the verdict of the error that it has shown."""
    parser = _parser()
    arguments, others = parser.parse_known_args(argv)
    if others and arguments.command is not _tensorboard:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    arguments.flags = others
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except SparkTFError as error:
        say(told_lines(words_of_error(error)))
        return int(error.verdict)
    except ImportError as error:  # commands import lazily, and another Spark may lack modules
        say(lacks(error))
        return int(Verdict.REFUSED)
    except KeyboardInterrupt:
        say("interrupted")
        return _EXIT_INTERRUPTED
    finally:
        let_go_of_output()


def _check(arguments: argparse.Namespace) -> int:
    try:
        config = load_config(arguments.config, arguments.set, arguments.date)
    except ConfigError as refused:
        for line in refused.all_wrong or (str(refused),):
            say(told_lines(words_of_error(ConfigError(line))))
        return int(refused.verdict)
    lines: list[str] = []
    if arguments.deep is not False:
        from sparktf.driver.check import check_run  # noqa: PLC0415 - pyspark, which no other command needs
        from sparktf.submit.environment import default_master  # noqa: PLC0415

        master = arguments.master or default_master(config)
        found = check_run(config, master, _file_systems(), say, deep=bool(arguments.deep))
        for error in found.errors:
            say(told_lines(words_of_error(error)))
        if found.errors:
            return int(found.errors[0].verdict)
        lines = found.lines()
    _show_yaml(show_config(config))
    print(*lines, sep="\n", end="\n" if lines else "")
    print("ok" if config.data.source_key is not None else "ok, for train(spark, config, data): data names no source")
    return 0


def _plan(arguments: argparse.Namespace) -> int:
    from sparktf.preview.looking import look_ahead  # noqa: PLC0415 - pyspark, as above
    from sparktf.preview.printing import print_forecast  # noqa: PLC0415
    from sparktf.runs.finding import make_plain_console  # noqa: PLC0415
    from sparktf.submit.environment import default_master  # noqa: PLC0415

    config = load_config(arguments.config, arguments.set, arguments.date)
    run_id = chosen_run_id(arguments.run_id, arguments.date)
    master = arguments.master or default_master(config)
    forecast = look_ahead(config, run_id, master, _file_systems(), SystemClock(), say)
    if arguments.json:
        print(forecast.model_dump_json(indent=1))
    else:
        print_forecast(make_plain_console(), forecast)
    return forecast.exit_code


def _submit(arguments: argparse.Namespace) -> int:
    from sparktf.submit.command import submit  # noqa: PLC0415 - storage libraries, which no other command needs
    from sparktf.submit.line import ScoringJob  # noqa: PLC0415 - as above

    signal.signal(signal.SIGTERM, _interrupt)  # a scheduler's way to stop a job: in order, as on Ctrl-C
    config = load_config(arguments.config, arguments.set, arguments.date)
    beside = Path(arguments.config).absolute().parent
    run_id = chosen_run_id(arguments.run_id, arguments.date)
    if arguments.predict and (arguments.run_id is not None or arguments.wait or arguments.detach):
        raise ConfigError("--predict submits a scoring job, not a run: leave out --run-id, --wait and --detach")
    if arguments.model is not None and not arguments.predict:
        raise ConfigError("--model needs --predict: a run trains the configuration's model: leave out --model")
    scoring = ScoringJob(arguments.model) if arguments.predict else None
    options = {"wait": arguments.wait, "detach": arguments.detach, "dry_run": arguments.dry_run}
    return submit(config, beside, None if scoring else run_id, _file_systems(), scoring=scoring, **options)


def _backfill(arguments: argparse.Namespace) -> int:
    from sparktf.submit import backfill  # noqa: PLC0415 - storage libraries, as above

    signal.signal(signal.SIGTERM, _interrupt)
    dates = backfill.dates_between(arguments.first, arguments.last, seconds_of("--every", arguments.every))
    configs = {date: load_config(arguments.config, arguments.set, date) for date in dates}
    backfill.check_order(configs, arguments.parallel)
    systems = _file_systems()
    runs = backfill.runs_of(configs, systems)
    console = PlainConsole()
    if arguments.dry_run:
        console.print(backfill.plan_table(runs))
        return 0

    def command(date: str) -> list[str]:
        sets = [word for override in arguments.set for word in ("--set", override)]
        return [sys.executable, "-m", "sparktf.cli", "submit", arguments.config, "--date", date, *sets]

    work = backfill.Backfill(command, partial(print, flush=True), arguments.parallel)
    try:
        work.run([run.date for run in runs if not run.is_done])
    finally:
        console.print(backfill.table_of(runs, work.codes, systems))
    return backfill.exit_code(work.codes)


def _pack(arguments: argparse.Namespace) -> int:
    from sparktf.submit.pack import pack, this_environment  # noqa: PLC0415

    packed = pack(this_environment(), arguments.output)
    print(packed.in_words())
    if packed.left_out:
        print(f"Left out, for they look like credentials: {', '.join(packed.left_out)}")
    return 0


def _runs(arguments: argparse.Namespace) -> int:
    from sparktf.runs.finding import make_plain_console  # noqa: PLC0415
    from sparktf.runs.listing import json_lines, parse_since, print_runs, recorded_runs  # noqa: PLC0415

    output = _needed_output(arguments, arguments.config)
    now = datetime.datetime.now(datetime.UTC)
    since = None if arguments.since is None else parse_since(arguments.since, now)
    found = recorded_runs(output, arguments.name, failed=arguments.failed, since=since, warn=say)
    if arguments.json:
        for line in json_lines(found):
            print(line)
    else:
        print_runs(make_plain_console(whole_lines=True), found)
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from sparktf.runs.finding import make_plain_console  # noqa: PLC0415
    from sparktf.runs.showing import show  # noqa: PLC0415

    (run,) = _found_runs(arguments, arguments.run)
    show(run, make_plain_console(), SystemClock())
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    from sparktf.runs.difference import compare, print_difference  # noqa: PLC0415
    from sparktf.runs.finding import make_plain_console  # noqa: PLC0415

    first, second = _found_runs(arguments, arguments.first, arguments.second)
    print_difference(make_plain_console(), first, second, compare(first, second))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from sparktf.nightly.report.run_page import run_page  # noqa: PLC0415
    from sparktf.nightly.report.stored import gather  # noqa: PLC0415

    (run,) = _found_runs(arguments, arguments.run)
    page = run_page(gather(run.storage, run.rundir), SystemClock().wall_s())
    path = arguments.to or Path(f"{run.rundir.name}-{run.rundir.run_id}.html")
    try:
        path.write_bytes(page)
    except OSError as error:
        raise ConfigError(f"--to {path} cannot be written: {error.strerror}") from error
    print(path)
    return 0


def _tensorboard(arguments: argparse.Namespace) -> int:
    from sparktf.runs.board import find_subject, show_board  # noqa: PLC0415
    from sparktf.runs.finding import find_output  # noqa: PLC0415

    signal.signal(signal.SIGTERM, _interrupt)
    systems = _file_systems()
    subject = find_subject(systems, arguments.run, find_output(systems, arguments.output, arguments.config))
    flags = ["--host", arguments.host, "--port", str(arguments.port), *arguments.flags]
    try:
        show_board(subject, flags, SystemClock(), partial(print, flush=True))
    except KeyboardInterrupt:
        return 0  # there is no other way to end it
    return 0


def _positive(text: str) -> int:
    """Parses a number of runs, for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _models(arguments: argparse.Namespace) -> int:
    from sparktf.runs.model_commands import show_models  # noqa: PLC0415 - as above

    show_models(_needed_output(arguments), arguments.name)
    return 0


def _rollback(arguments: argparse.Namespace) -> int:
    from sparktf.runs.model_commands import rollback  # noqa: PLC0415 - as above

    print(rollback(_needed_output(arguments), arguments.name, arguments.to))
    return 0


def _promote(arguments: argparse.Namespace) -> int:
    from sparktf.runs.model_commands import promote  # noqa: PLC0415 - as above

    print(promote(_needed_output(arguments), arguments.run))
    return 0


def _file_systems() -> FileSystems:
    """Returns this process's file systems, the only ones that it has."""
    from sparktf.storage.file_systems import FileSystems  # noqa: PLC0415 - storage libraries, as above

    return FileSystems(HadoopConf.from_environment())


def _needed_output(arguments: argparse.Namespace, config: str | None = None) -> RunsRoot:
    """Returns the output that a command line names. Raises `ConfigError` where it names none."""
    from sparktf.runs.finding import find_output, need_output  # noqa: PLC0415 - as above

    return need_output(find_output(_file_systems(), arguments.output, config))


def _found_runs(arguments: argparse.Namespace, *runs: str) -> list[FoundRun]:
    """Returns the runs that a person means. Raises `ConfigError` where there is none of them."""
    from sparktf.runs.finding import find_output, find_run  # noqa: PLC0415 - as above

    systems = _file_systems()
    output = find_output(systems, arguments.output, arguments.config)
    return [find_run(systems, run, output) for run in runs]


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--set` and `--date`, the same for every command that takes a configuration."""
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=_SET_HELP)
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
        help="all that a run does before it holds anything, with Spark on this machine, and the model, built in a "
        "process of its own; --no-deep: the file alone "
        "(default: what takes no Spark)",
    )
    check.add_argument("--master", help="Spark's master, which must have room (default: what a run here would take)")
    check.set_defaults(command=_check)
    plan = commands.add_parser("plan", help="say all that can be said of a run before it holds anything")
    plan.add_argument("config", metavar="CONFIG", help="YAML file")
    add_config_arguments(plan)
    plan.add_argument("--run-id", metavar="ID", help="names the run (default: --date)")
    plan.add_argument("--master", help="Spark's master (default: what a run here would take)")
    plan.add_argument("--json", action="store_true", help="one JSON document with the same facts")
    plan.set_defaults(command=_plan)
    submit = commands.add_parser("submit", help="run spark-submit for a configuration, and wait for the run's verdict")
    submit.add_argument("config", metavar="CONFIG", help="YAML file")
    add_config_arguments(submit)
    submit.add_argument("--run-id", metavar="ID", help="names the run (default: --date); the same id again resumes it")
    submit.add_argument("--wait", action="store_true", help=WAIT_HELP)
    submit.add_argument("--predict", action="store_true", help="score the day's rows (section predict), train nothing")
    submit.add_argument("--model", metavar="MODEL", help="to score with: published, as-of, run:<id>, or a path")
    submit.add_argument("--dry-run", action="store_true", help="print the spark-submit line, and do nothing")
    submit.add_argument("--detach", action="store_true", help="in cluster mode: end once YARN has the application")
    submit.set_defaults(command=_submit)
    many = commands.add_parser("backfill", help="submit a run for each of several dates, and pass over those done")
    many.add_argument("config", metavar="CONFIG", help="YAML file")
    many.add_argument("--from", dest="first", required=True, metavar="YYYY-MM-DD", help="first date")
    many.add_argument("--to", dest="last", required=True, metavar="YYYY-MM-DD", help="last date")
    many.add_argument("--every", default="1d", metavar="DAYS", help="between two dates (default: 1d)")
    many.add_argument("--parallel", type=_positive, default=1, metavar="N", help="runs at once (default: 1)")
    many.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=_SET_HELP)
    many.add_argument("--dry-run", action="store_true", help="show how the run of each date stands, and do nothing")
    many.set_defaults(command=_backfill)
    pack = commands.add_parser("pack", help="pack this virtual environment for YARN's containers")
    pack.add_argument(
        "--output", type=Path, default=Path("env.tar.gz"), metavar="FILE", help="default: env.tar.gz; or a .tar"
    )
    pack.set_defaults(command=_pack)
    _add_runs(commands)
    _add_model_commands(commands)
    return parser


def _add_runs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the commands that look at runs."""
    runs = commands.add_parser("runs", help="list the runs that have ended, the last one first (output.history)")
    runs.add_argument(
        "name", metavar="NAME", nargs="?", help="runs of this name (default: the configuration's, or all)"
    )
    runs.add_argument("--failed", action="store_true", help="only those that came to no model")
    runs.add_argument("--since", metavar="DAY", help="only those that began since 2026-11-20 (UTC), or 36h or 7d ago")
    runs.add_argument("--json", action="store_true", help="a line of JSON for each run, with all that is kept of it")
    runs.set_defaults(command=_runs)
    show = commands.add_parser("show", help="show how a run went; one that is under way is followed")
    show.add_argument("run", metavar="RUN", help="NAME/RUN_ID, RUN_ID with --config, or the path of a run's folder")
    show.set_defaults(command=_show)
    diff = commands.add_parser("diff", help="show in what two runs differ: configuration, data, result")
    diff.add_argument("first", metavar="RUN", help="as of show")
    diff.add_argument("second", metavar="RUN")
    diff.set_defaults(command=_diff)
    report = commands.add_parser("report", help="write the page of a run, also of one that is under way")
    report.add_argument("run", metavar="RUN", help="as of show")
    report.add_argument("--to", type=Path, metavar="FILE", help="where (default: NAME-RUN_ID.html)")
    report.set_defaults(command=_report)
    board = commands.add_parser(
        "tensorboard",
        help="show a run, or all runs of a name, in TensorBoard, and follow them",
        description="Options that are not here are TensorBoard's own, and go last.",
    )
    board.add_argument("run", metavar="NAME|RUN", help="a name, or a run as of show")
    board.add_argument("--host", default="127.0.0.1", help="where it listens (default: %(default)s)")
    board.add_argument("--port", type=int, default=6006, help="0 for any that is free (default: %(default)s)")
    board.set_defaults(command=_tensorboard)
    for parser in (runs, show, diff, report, board):
        parser.add_argument("--output", metavar="PATH", help="where the runs are (default: $SPARKTF_OUTPUT)")
        parser.add_argument("--config", metavar="FILE", help="a configuration, whose output and name are meant")


def _add_model_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    models = commands.add_parser("models", help="list the published models of a name")
    models.add_argument("name", metavar="NAME", help="the name of the training")
    models.set_defaults(command=_models)
    rollback = commands.add_parser("rollback", help="make an earlier published model the current one")
    rollback.add_argument("name", metavar="NAME", help="the name of the training")
    rollback.add_argument("--to", type=int, metavar="VERSION", help="which one (default: the one before the current)")
    rollback.set_defaults(command=_rollback)
    promote = commands.add_parser("promote", help="publish the model of a run, whatever day it is of")
    promote.add_argument("run", metavar="RUN", help="NAME/RUN_ID")
    promote.set_defaults(command=_promote)
    for command in (models, rollback, promote):
        command.add_argument(
            "--output", metavar="PATH", help="output.path of the configuration (default: $SPARKTF_OUTPUT)"
        )


def _show_yaml(text: str) -> None:
    """Prints YAML, in colour on a terminal, unchanged elsewhere."""
    console = PlainConsole()
    if console.is_terminal:
        console.print(Syntax(text.rstrip(), "yaml", theme="ansi_dark", background_color="default"))
    else:
        print(text, end="")


if __name__ == "__main__":
    sys.exit(main())
