"""`sparktf suggest-checks`: `data.checks` from the statistics that runs have stored, as YAML to be edited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sparktf.config.checks import ChecksConfig
from sparktf.config.yaml import YamlError, flow_yaml, load_yaml
from sparktf.errors import ConfigError, CorruptFileError, StorageNotFoundError, Verdict
from sparktf.nightly.natural_order import natural_key
from sparktf.nightly.suggested_changes import suggest_changes
from sparktf.nightly.suggesting import NightData, SuggestedBound
from sparktf.rundir import RunDirectory
from sparktf.runs.finding import FoundRun, RunsRoot, find_run, is_name_of_runs, run_ids
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.told import count_in_words, told

_MOST_NIGHTS = 14
"""Two weeks: weekends are among them, and last season is not."""

_TRIED = 60
"""The most folders that are looked into: many may be of runs without statistics."""

_WIDTH = 118


class Nights(NamedTuple):
    """The runs whose data is suggested from.

    Attributes:
        data: At least one, the first one first.
        present: The checks of the last run whose configuration is known; None where none has any.
        configured: That run.
    """

    name: str
    data: list[NightData]
    present: ChecksConfig | None
    configured: str = ""


def find_nights(systems: FileSystems, run: str, output: RunsRoot | None, warn: Callable[[str], None]) -> Nights:
    """Returns the last runs of a name whose data was not refused; or a run, whatever became of it, and those before it.

    Args:
        run: A name, or a run as `find_run` takes it.
        warn: Called for each run whose statistics cannot be read, which is passed over.

    Raises:
        ConfigError: there is no such run or name, or none with statistics.
        StorageError: the storage failed.
    """
    if output is not None and is_name_of_runs(run, output):
        storage, root, name, last = output.storage, output.root, run, None
    else:
        found = find_run(systems, run, output)
        storage, root, name, last = found.storage, found.rundir.root, found.rundir.name, found.rundir.run_id
    ids = sorted(run_ids(storage, root, name), key=natural_key, reverse=True)
    if last is not None:
        ids = [run_id for run_id in ids if natural_key(run_id) <= natural_key(last)]
    nights: list[NightData] = []
    for run_id in ids[:_TRIED]:
        run_there = FoundRun(storage, RunDirectory(root, name, run_id))
        data = _data(run_there, warn) if run_id == last or _is_accepted(run_there) else None
        if data is not None:
            nights.append(data)
        elif run_id == last:
            raise ConfigError(_nothing(f"{name}/{last} has no statistics"))
        if len(nights) == _MOST_NIGHTS:
            break
    if not nights:
        raise ConfigError(_nothing(f"{root} has no run of {name} with statistics"))
    for night in nights:
        # A run stores its configuration once it has nodes: one whose data was refused has none.
        if storage.exists((rundir := RunDirectory(root, name, night.run_id)).config):
            return Nights(name, nights[::-1], _present(storage, rundir), night.run_id)
    return Nights(name, nights[::-1], None)


def suggested_yaml(nights: Nights, present: ChecksConfig | None, source: str) -> str:
    """Returns the section `data.checks` with a comment to each bound.

    Args:
        present: The checks to change; None without any.
        source: Whose these are, for people.
    """
    bounds = suggest_changes(present or ChecksConfig(), nights.data)
    first, last = nights.data[0].run_id, nights.data[-1].run_id
    of = last if first == last else f"{first} to {last}"
    count = count_in_words(len(nights.data), "night")
    head = [
        f"# Suggested from the data of {count} of {nights.name}, {of}; to be edited.",
        "# Each bound leaves room for what other nights may have, the less the more nights there are.",
    ]
    if present is not None and present != ChecksConfig(sample=present.sample):
        head.append(f'# Beside the checks of {source}: "was" says what is changed, "new" what these do not have.')
    return "\n".join([*head, "data:", "  checks:", *_lines(bounds)]) + "\n"


def _data(run: FoundRun, warn: Callable[[str], None]) -> NightData | None:
    """Returns the data of a run; None if it has stored nothing of it that this version can read, or had no rows."""
    content = run.read(run.rundir.statistics)
    if content is None:
        return None
    try:
        return NightData.read(run.rundir.run_id, content)
    except CorruptFileError as error:
        warn(f"{run.title} is passed over: {error}")
        return None


def _is_accepted(run: FoundRun) -> bool:
    """Whether a run has ended, and not for its data."""
    try:
        result = run.result()
    except CorruptFileError:
        return False
    return result is not None and result.verdict is not Verdict.DATA_REFUSED


def _present(storage: Storage, rundir: RunDirectory) -> ChecksConfig | None:
    """Returns the checks that a run was configured with; None if it had none, or nobody knows them."""
    try:
        config = load_yaml(storage.read_bytes(rundir.config).decode())
        checks = (config.get("data") or {}).get("checks")
        return None if checks is None else ChecksConfig.model_validate(checks)
    except (StorageNotFoundError, YamlError, UnicodeDecodeError, AttributeError, ConfigError):
        return None


def _nothing(what: str) -> str:
    return f"{what}: set data.checks: {{}}, which only keeps statistics, and have a night run"


def _lines(bounds: Sequence[SuggestedBound]) -> Iterator[str]:
    """Yields the lines below `checks:`, in the order of the configuration."""
    yield from _settings([b for b in bounds if len(b.key) == 1], 4)
    for level in ("refuse", "warn"):
        mine = [bound for bound in bounds if bound.key[0] == level]
        if not mine:
            continue
        yield f"    {level}:"
        yield from _settings([b for b in mine if b.key[1:] == ("rows",)], 6)
        columns = [bound for bound in mine if bound.key[1] == "columns"]
        names = list(dict.fromkeys(bound.key[2] for bound in columns))
        if any(bound.value is not None for bound in columns):
            yield "      columns:"
        for name in names:
            yield from _column(name, [bound for bound in columns if bound.key[2] == name])
        if drift := [bound for bound in mine if bound.key[1] == "drift"]:
            yield "      drift:"
            yield from _settings(drift, 8)


def _column(name: str, bounds: Sequence[SuggestedBound]) -> Iterator[str]:
    for remark in (bound for bound in bounds if bound.value is None):
        yield f"        # {told(name)}: {remark.why}"
    if settings := [bound for bound in bounds if bound.value is not None]:
        yield f"        {flow_yaml(name)}:"
        yield from _settings(settings, 10)


def _settings(bounds: Sequence[SuggestedBound], indent: int) -> Iterator[str]:
    """Yields a line for each bound, comments one below the other; where there is no room, above."""
    shown = [f"{' ' * indent}{bound.key[-1]}: {flow_yaml(bound.value)}" for bound in bounds]
    at = max((len(line) for line in shown), default=0)
    for line, bound in zip(shown, bounds, strict=True):
        comment = f"# {told(bound.why)}"
        if at + 2 + len(comment) <= _WIDTH:
            yield f"{line:{at}}  {comment}"
        else:
            yield from (f"{' ' * indent}{comment}", line)
