"""The console script `sparktf`: the commands that are not Spark jobs."""

from __future__ import annotations

import argparse
import datetime
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.syntax import Syntax

from sparktf import __version__
from sparktf.clock import SystemClock
from sparktf.commands.command_line import command_line
from sparktf.config.duration import seconds_of
from sparktf.config.load import load_config, show_config
from sparktf.console.plain_console import PlainConsole, let_go_of_output, say
from sparktf.errors import ConfigError, SparkTFError, Verdict
from sparktf.hadoop import act_as
from sparktf.process.supported import lacks
from sparktf.rundir import chosen_run_id
from sparktf.told import told, told_lines, words_of_error

if TYPE_CHECKING:
    from sparktf.config.job import JobConfig
    from sparktf.runs.finding import FoundRun, RunsRoot
    from sparktf.storage.file_systems import FileSystems

_EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0, or the verdict of the error that it has shown."""
    arguments = command_line().parse(argv)
    if arguments.command in ("submit", "backfill", "doctor"):
        signal.signal(signal.SIGTERM, _interrupt)  # a scheduler's way to stop a job: in order, as on Ctrl-C
    try:
        return _COMMANDS[arguments.command](arguments)
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
        config = _config(arguments)
    except ConfigError as refused:
        for line in refused.all_wrong or (str(refused),):
            say(told_lines(words_of_error(ConfigError(line))))
        return int(refused.verdict)
    lines: list[str] = []
    if arguments.deep is not False:
        _check_pyspark()
        from sparktf.driver.check import check_run  # noqa: PLC0415 - pyspark, which no other command needs
        from sparktf.submit.environment import default_master  # noqa: PLC0415

        master = arguments.master or default_master(config)
        found = check_run(config, master, _file_systems(config), say, deep=bool(arguments.deep))
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
    _check_pyspark()
    from sparktf.preview.looking import look_ahead  # noqa: PLC0415 - pyspark, as above
    from sparktf.preview.printing import print_forecast  # noqa: PLC0415
    from sparktf.runs.finding import make_plain_console  # noqa: PLC0415
    from sparktf.submit.environment import default_master  # noqa: PLC0415

    config = _config(arguments)
    run_id = chosen_run_id(arguments.run_id, arguments.date)
    master = arguments.master or default_master(config)
    forecast = look_ahead(config, run_id, master, _file_systems(config), SystemClock(), say)
    if arguments.json:
        print(forecast.model_dump_json(indent=1))
    else:
        print_forecast(make_plain_console(), forecast)
    return forecast.exit_code


def _doctor(arguments: argparse.Namespace) -> int:
    from sparktf.doctor.examination import doctor  # noqa: PLC0415 - storage libraries, which no other command needs

    return doctor(arguments.config, arguments.set, arguments.date, _file_systems, arguments.nodes, json=arguments.json)


def _train(arguments: argparse.Namespace) -> int:
    from sparktf.main import run_training  # noqa: PLC0415 - as above

    run_id = chosen_run_id(arguments.run_id, arguments.date)
    return run_training(_config_on_this_machine(arguments), run_id, arguments.wait)


def _predict(arguments: argparse.Namespace) -> int:
    from sparktf.main import run_scoring  # noqa: PLC0415 - as above

    return run_scoring(_config_on_this_machine(arguments), arguments.model)


def _check_pyspark() -> None:
    """Refuses a Spark that sparktf does not run on, before any of it is imported. Raises `PreflightError`."""
    from sparktf.driver.spark.differences import check_pyspark  # noqa: PLC0415 - PyArrow, which few commands need

    check_pyspark()


def _config(arguments: argparse.Namespace) -> JobConfig:
    config = load_config(arguments.config, arguments.set, arguments.date)
    act_as(config.submit.proxy_user)  # whatever the command asks for
    return config


def _config_on_this_machine(arguments: argparse.Namespace) -> JobConfig:
    """Returns the configuration of a job in this process, which has Spark start beside it."""
    from sparktf.submit.here import local_master, prepare_for_spark  # noqa: PLC0415 - pyspark, as above

    config = _config(arguments)
    prepare_for_spark(arguments.master or local_master(config))
    return config


def _submit(arguments: argparse.Namespace) -> int:
    from sparktf.submit.command import submit  # noqa: PLC0415 - storage libraries, which no other command needs
    from sparktf.submit.line import ScoringJob  # noqa: PLC0415 - as above

    config = _config(arguments)
    beside = Path(arguments.config).absolute().parent
    run_id = chosen_run_id(arguments.run_id, arguments.date)
    if arguments.predict and (arguments.run_id is not None or arguments.wait or arguments.detach):
        raise ConfigError("--predict submits a scoring job, not a run: leave out --run-id, --wait and --detach")
    if arguments.model is not None and not arguments.predict:
        raise ConfigError("--model needs --predict: a run trains the configuration's model: leave out --model")
    scoring = ScoringJob(arguments.model) if arguments.predict else None
    options = {"wait": arguments.wait, "detach": arguments.detach, "dry_run": arguments.dry_run}
    return submit(config, beside, None if scoring else run_id, _file_systems(config), scoring=scoring, **options)


def _backfill(arguments: argparse.Namespace) -> int:
    from sparktf.submit import backfill  # noqa: PLC0415 - storage libraries, as above

    every_s = seconds_of("--every", arguments.every)
    dates = backfill.dates_between(arguments.first, arguments.last, every_s)
    config, sets, parallel = arguments.config, arguments.set, arguments.parallel
    systems = _file_systems(load_config(config, sets, dates[0]))
    return backfill.run_backfill(config, sets, dates, systems, parallel, dry_run=arguments.dry_run)


def _schedule(arguments: argparse.Namespace) -> int:
    from sparktf.submit.schedules import copy_schedule  # noqa: PLC0415 - as above

    copied = copy_schedule(arguments.scheduler, arguments.to)
    print(*copied, "put your names in place of churn: docs/nights/scheduling.md", sep="\n")
    return 0


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

    output = _needed_output(arguments)
    if arguments.expect is not None:
        return _expect(arguments, output)
    since = None if arguments.since is None else parse_since(arguments.since, datetime.datetime.now(datetime.UTC))
    found = recorded_runs(output, arguments.name, failed=arguments.failed, since=since, warn=say)
    if arguments.json:
        for line in json_lines(found):
            print(line)
    else:
        print_runs(make_plain_console(whole_lines=True), found)
    return 0


def _expect(arguments: argparse.Namespace, output: RunsRoot) -> int:
    from sparktf.runs.expecting import look_for_run  # noqa: PLC0415
    from sparktf.runs.finding import need_name  # noqa: PLC0415

    if arguments.failed or arguments.since is not None or arguments.json:
        raise ConfigError("--expect asks whether a run came, and lists none: leave out --failed, --since and --json")
    within_s = seconds_of("--expect", arguments.expect)
    coming = look_for_run(output, need_name(arguments.name, output), within_s, SystemClock().wall_s(), say)
    say(told(coming.line), sys.stdout if coming.came else sys.stderr)
    return int(Verdict.DONE if coming.came else Verdict.INFRASTRUCTURE)


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


def _suggest_checks(arguments: argparse.Namespace) -> int:
    from sparktf.runs.finding import find_output, load_for_today, need_name, need_output  # noqa: PLC0415
    from sparktf.runs.suggested_checks import find_nights, suggested_yaml  # noqa: PLC0415

    systems = _file_systems(arguments.config)
    output = find_output(systems, arguments.output, arguments.config)
    run = need_name(arguments.run, need_output(output))
    nights = find_nights(systems, run, output, say)
    present, source = nights.present, f"run {nights.configured}"
    if arguments.config is not None:
        present, source = load_for_today(arguments.config).data.checks, arguments.config
    print(suggested_yaml(nights, present, source), end="")
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
    systems = _file_systems(arguments.config)
    subject = find_subject(systems, arguments.run, find_output(systems, arguments.output, arguments.config))
    flags = ["--host", arguments.host, "--port", str(arguments.port), *arguments.flags]
    with suppress(KeyboardInterrupt):  # there is no other way to end it
        show_board(subject, flags, SystemClock(), partial(print, flush=True))
    return 0


def _models(arguments: argparse.Namespace) -> int:
    from sparktf.runs.model_commands import show_models  # noqa: PLC0415 - as above

    output = _needed_output(arguments)
    show_models(output, _needed_name(arguments, output))
    return 0


def _rollback(arguments: argparse.Namespace) -> int:
    from sparktf.runs.model_commands import rollback  # noqa: PLC0415 - as above

    output = _needed_output(arguments)
    print(rollback(output, _needed_name(arguments, output), arguments.to))
    return 0


def _promote(arguments: argparse.Namespace) -> int:
    from sparktf.runs.model_commands import promote  # noqa: PLC0415 - as above

    (run,) = _found_runs(arguments, arguments.run)
    print(promote(run))
    return 0


def _init(arguments: argparse.Namespace) -> int:
    from sparktf.submit.beginning import begin_nights  # noqa: PLC0415

    print(*begin_nights(arguments.folder), sep="\n")
    go = [] if arguments.folder == Path() else [f"cd {shlex.quote(str(arguments.folder))}"]
    steps = ["python lake.py 2026-11-01 && python lake.py 2026-11-02", "sparktf submit churn.yaml --date 2026-11-02"]
    print("Begin with:", *go, *steps, sep="\n  ")
    return 0


def _help(arguments: argparse.Namespace) -> int:
    print(command_line().help(arguments.about), end="")
    return 0


def _version(arguments: argparse.Namespace) -> int:
    del arguments
    print(f"sparktf {__version__}")
    return 0


def _completion(arguments: argparse.Namespace) -> int:
    from sparktf.commands.completion import completion_script  # noqa: PLC0415 - only who sets up a shell needs it

    print(completion_script(command_line().parser, arguments.shell))
    return 0


def _file_systems(config: JobConfig | str | None) -> FileSystems:
    """Returns this process's file systems, the only ones that it has; a configuration may say more about them."""
    from sparktf.driver.spark.ticket import command_file_systems  # noqa: PLC0415 - storage libraries, as above
    from sparktf.runs.finding import load_for_today  # noqa: PLC0415 - as above

    loaded = load_for_today(config) if isinstance(config, str) else config
    return command_file_systems(loaded.submit.conf if loaded else None)


def _needed_output(arguments: argparse.Namespace) -> RunsRoot:
    """Returns the output that a command line names. Raises `ConfigError` where it names none."""
    from sparktf.runs.finding import find_output, need_output  # noqa: PLC0415 - as above

    return need_output(find_output(_file_systems(arguments.config), arguments.output, arguments.config))


def _needed_name(arguments: argparse.Namespace, output: RunsRoot) -> str:
    """Returns the name that a command line means. Raises `ConfigError` where it names none."""
    from sparktf.runs.finding import need_name  # noqa: PLC0415 - as above

    return need_name(arguments.name, output)


def _found_runs(arguments: argparse.Namespace, *runs: str) -> list[FoundRun]:
    """Returns the runs that a person means. Raises `ConfigError` where there is none of them."""
    from sparktf.runs.finding import find_output, find_run  # noqa: PLC0415 - as above

    systems = _file_systems(arguments.config)
    output = find_output(systems, arguments.output, arguments.config)
    return [find_run(systems, run, output) for run in runs]


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _show_yaml(text: str) -> None:
    """Prints YAML, in colour on a terminal, unchanged elsewhere."""
    console = PlainConsole()
    if console.is_terminal:
        console.print(Syntax(text.rstrip(), "yaml", theme="ansi_dark", background_color="default"))
    else:
        print(text, end="")


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "check": _check,
    "plan": _plan,
    "doctor": _doctor,
    "train": _train,
    "predict": _predict,
    "submit": _submit,
    "backfill": _backfill,
    "schedule": _schedule,
    "pack": _pack,
    "runs": _runs,
    "show": _show,
    "diff": _diff,
    "report": _report,
    "suggest-checks": _suggest_checks,
    "tensorboard": _tensorboard,
    "models": _models,
    "rollback": _rollback,
    "promote": _promote,
    "init": _init,
    "help": _help,
    "version": _version,
    "completion": _completion,
}

if __name__ == "__main__":
    sys.exit(main())
