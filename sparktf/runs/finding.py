"""Finds the output folder, and runs by the names that people give them."""

from __future__ import annotations

import datetime
import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console

from sparktf.config.job import JobConfig
from sparktf.config.load import load_config
from sparktf.console.plain_console import PlainConsole
from sparktf.errors import ConfigError, StorageNotFoundError
from sparktf.hadoop import act_as
from sparktf.nightly.history import names_in_history
from sparktf.results.result import RunResult
from sparktf.rundir import SERVING, RunDirectory, is_name
from sparktf.storage.base import Storage, is_hidden, name_of
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.results import read_result

OUTPUT = "SPARKTF_OUTPUT"
_PIPED_WIDTH = 160
_LINE_WIDTH = 4000
"""Width for unbroken lines: the longest cause is shorter."""

_NAMED = 3
_OF_A_RUN = {"result.json", "config.yaml", "events", "plan", "checkpoints"}


class RunsRoot(NamedTuple):
    """The folder of all runs."""

    storage: Storage
    root: str
    name: str | None = None  # The default name; None without one


class FoundRun(NamedTuple):
    """An existing run."""

    storage: Storage
    rundir: RunDirectory

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.rundir.name}/{self.rundir.run_id}"

    def read(self, path: str) -> bytes | None:
        """Returns a file of the run; None if it does not exist."""
        try:
            return self.storage.read_bytes(path)
        except StorageNotFoundError:
            return None

    def result(self) -> RunResult | None:
        """Returns the result; None without one.

        Raises:
            CorruptFileError: it cannot be read.
            StorageError: the storage failed.
        """
        try:
            return read_result(self.storage, self.rundir.result)
        except StorageNotFoundError:
            return None


def make_plain_console(*, whole_lines: bool = False) -> Console:
    """Returns a console as wide as the terminal; without a terminal, `whole_lines` are never broken."""
    piped = _LINE_WIDTH if whole_lines else _PIPED_WIDTH
    return PlainConsole(width=None if sys.stdout.isatty() else piped)


def find_output(
    systems: FileSystems, output: str | None, config: str | None, environment: Mapping[str, str] = os.environ
) -> RunsRoot | None:
    """Returns the folder of all runs: the argument, else the configuration's, else the environment's; or None.

    Args:
        config: A configuration file; templates in it are filled for today.

    Raises:
        ConfigError: the configuration is wrong, or the path names no file system.
    """
    name = None
    if config is not None:
        loaded = load_for_today(config)
        act_as(loaded.submit.proxy_user)
        output, name = output or loaded.output.path, loaded.name
    root = output or environment.get(OUTPUT)
    if not root:
        return None
    return RunsRoot(systems.open_runs(root), systems.normalise(root), name)


def load_for_today(config: str) -> JobConfig:
    """Returns a configuration file with its templates filled for today. Raises `ConfigError` as `load_config`."""
    return load_config(config, date=datetime.datetime.now(datetime.UTC).date().isoformat())


def need_output(found: RunsRoot | None) -> RunsRoot:
    """Returns the output. Raises `ConfigError` if it is given nowhere."""
    if found is None:
        raise ConfigError(f"the output folder is not given: give --output PATH or --config FILE, or set {OUTPUT}")
    return found


def need_name(name: str | None, output: RunsRoot) -> str:
    """Returns a name as given, else the configuration's. Raises `ConfigError` without either: names those there."""
    if found := name or output.name:
        return found
    names = _folders(output.storage, output.root)
    known = f": {output.root} has {', '.join(sorted(names)[:_NAMED])}{' ...' * (len(names) > _NAMED)}" if names else ""
    raise ConfigError(f"no name is given: give NAME or --config FILE{known}")


def find_run(systems: FileSystems, run: str, output: RunsRoot | None) -> FoundRun:
    """Returns the run that a person names.

    Args:
        run: NAME/RUN_ID below the output; RUN_ID alone where the name is known; or the path of a run's folder.

    Raises:
        ConfigError: there is no such run; names the nearest ones.
        StorageError: the storage failed.
    """
    *names, run_id = run.split("/")
    if output is not None and not names and output.name:
        names = [output.name]
    is_below = len(names) == 1 and is_name(names[0]) and is_name(run_id)
    if output is not None and is_below and _is_run(output.storage, f"{output.root}/{names[0]}/{run_id}"):
        return FoundRun(output.storage, RunDirectory(output.root, names[0], run_id))
    path = systems.normalise(run)
    storage = systems.open_runs(path)
    above, _, run_id_of_path = path.rpartition("/")
    root, _, name = above.rpartition("/")
    if is_name(name) and is_name(run_id_of_path) and _is_run(storage, path):
        return FoundRun(storage, RunDirectory(root, name, run_id_of_path))
    raise ConfigError(_no_run(run, [*names, run_id] if is_below else [run], output))


def is_name_of_runs(text: str, output: RunsRoot) -> bool:
    """Whether a person names all runs of a name, and not one run. Raises `StorageError`."""
    is_run = output.name is not None and _is_folder(output, f"{output.name}/{text}")
    return is_name(text) and not is_run and _is_folder(output, text)


def run_ids(storage: Storage, root: str, name: str) -> list[str]:
    """Returns the ids of all runs of a name. Raises `StorageError`."""
    return [run for run in _folders(storage, f"{root}/{name}") if is_name(run) and run != SERVING]


def name_with_history(name: str, output: RunsRoot) -> str:
    """Returns a name that has a history.

    Raises:
        ConfigError: it has none; names the nearest ones.
        StorageError: the storage failed.
    """
    kept = names_in_history(output.storage, output.root)
    if name in kept:
        return name
    if name in _folders(output.storage, output.root):
        raise ConfigError(
            f"{name} has no history below {output.root}: set output.history: true to record its next runs"
        )
    raise ConfigError(f"{output.root} has no history of {name!r}{_nearest(name, kept)}")


def _no_run(run: str, parts: Sequence[str], output: RunsRoot | None) -> str:
    if output is None:
        return f"{run} is the path of no run: give one, or NAME/RUN_ID with --output PATH, --config FILE or {OUTPUT}"
    names = _folders(output.storage, output.root)
    name = parts[0]
    if name not in names:
        return f"there is no run {run!r} below {output.root}{_nearest(name, names)}"
    ids = [f"{name}/{run_id}" for run_id in _folders(output.storage, f"{output.root}/{name}")]
    return f"there is no run {run!r} below {output.root}{_nearest('/'.join(parts), ids) or _newest(ids)}"


def _nearest(word: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, choices, n=_NAMED, cutoff=0.6)
    return f": did you mean {' or '.join(near)}?" if near else ""


def _newest(runs: Sequence[str]) -> str:
    return f": there are {', '.join(sorted(runs, reverse=True)[:_NAMED])}" if runs else ""


def _folders(storage: Storage, path: str) -> list[str]:
    try:
        names = [(name_of(entry.path), entry.is_dir) for entry in storage.list(path)]
    except StorageNotFoundError:
        return []
    return [name for name, is_dir in names if is_dir and not is_hidden(name)]


def _is_folder(output: RunsRoot, path: str) -> bool:
    try:
        return output.storage.stat(f"{output.root}/{path}").is_dir
    except StorageNotFoundError:
        return False


def _is_run(storage: Storage, path: str) -> bool:
    try:
        return any(name_of(entry.path) in _OF_A_RUN for entry in storage.list(path))
    except StorageNotFoundError:
        return False
