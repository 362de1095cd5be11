"""`sparktf models`, `sparktf rollback` and `sparktf promote`: published models, by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial

from rich.table import Table
from rich.text import Text

from sparktf.config.yaml import load_yaml
from sparktf.driver.plan.stored_plan import data_read
from sparktf.errors import ConfigError, StorageNotFoundError, TornCheckpointError, Verdict
from sparktf.published.mlmodel import mlmodel_of
from sparktf.published.release import Release, release_of
from sparktf.published.serving import Serving, Version
from sparktf.rundir import RunDirectory, check_name
from sparktf.runs.finding import FoundRun, RunsRoot, make_plain_console
from sparktf.storage.base import Storage
from sparktf.storage.transactions.results import read_result

_SHOWN_METRICS = 3


def show_models(output: RunsRoot, name: str) -> None:
    """Prints a table of the published models of a name, the newest first.

    Raises:
        ConfigError: there is none.
        StorageError: the storage failed.
    """
    storage, root, _ = output
    serving = Serving(storage, root, check_name(name, "NAME"))
    current, versions = serving.current(), serving.versions()
    if not versions:
        raise ConfigError(
            f"{name} has no published model in {serving.path}: give runs the section publish, or promote one by hand"
        )
    table = Table(title=f"{name}: {serving.path}", title_justify="left", title_style="bold")
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("date", no_wrap=True)
    table.add_column("run", overflow="fold", min_width=10)
    table.add_column("published (UTC)", overflow="fold")
    table.add_column("steps", justify="right", no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("metrics", overflow="fold")
    for version in reversed(versions):
        is_current = version.number == current
        state = "current" if is_current else "withdrawn" if version.withdrawn else ""
        style = "bold green" if is_current else "dim" if version.withdrawn else ""
        cells = (str(version.number), state, *_cells(storage, serving, version))
        table.add_row(*(Text(cell) for cell in cells), style=style)
    make_plain_console().print(table)


def rollback(output: RunsRoot, name: str, to: int | None) -> str:
    """Makes an earlier version the current one; returns the message. Raises as `Serving.rollback`."""
    storage, root, _ = output
    serving = Serving(storage, root, check_name(name, "NAME"))
    before = serving.current()
    number = serving.rollback(to)
    came = "" if before in (None, number) else f", and no longer {before}"
    return f"{name}: version {number} is current{came}: {serving.path}/{number}"


def promote(run: FoundRun) -> str:
    """Makes the model of a run the current version; returns the message.

    Raises:
        ConfigError: that run has not ended well.
        ModelContractError: it has exported no model.
        StorageError: the storage failed.
    """
    storage, rundir = run
    serving = Serving(storage, rundir.root, rundir.name)
    number = serving.promote(stored_release(storage, rundir, time.time()))
    return f"{rundir.name}: version {number}, of run {rundir.run_id}, is current: {serving.path}/{number}"


def stored_release(storage: Storage, rundir: RunDirectory, now_s: float) -> Release:
    """Returns the release of a run that has ended, of the day that its configuration gave, else of its own.

    Raises:
        ConfigError: there is no such run, it has not ended, or it has failed.
        ModelContractError: it has exported no model.
    """
    try:
        result = read_result(storage, rundir.result)
    except StorageNotFoundError:
        raise ConfigError(f"{rundir.path} has no result.json: there is no such run, or it has not ended") from None
    if result.verdict not in (Verdict.DONE, Verdict.GATED):
        raise ConfigError(
            f"run {rundir.name}/{rundir.run_id} ended with exit code {int(result.verdict)}, and has no model to "
            "publish: submit it again"
        )
    config = load_yaml(storage.read_bytes(rundir.config).decode())
    date = (config.get("publish") or {}).get("date")
    date = date or result.date or result.started[: len("2026-11-20")]
    return release_of(
        storage, rundir, result, date, now_s, partial(data_read, storage, rundir.plan), mlmodel_of(config)
    )


def _cells(storage: Storage, serving: Serving, version: Version) -> tuple[str, ...]:
    try:
        manifest = serving.manifest(version)
        metrics = json.loads(storage.read_bytes(f"{version.folder}/metrics.json"))
    except (TornCheckpointError, StorageNotFoundError):
        return ("", "no model that sparktf has published", "", "", "", "")
    nbytes = sum(file.nbytes for file in manifest.files)
    published = manifest.published[: len("2026-11-20T22:13")].replace("T", " ")
    sizes = (f"{manifest.steps:,}", f"{nbytes / 1e6:,.1f}")
    return (manifest.date, manifest.run_id, published, *sizes, _metrics(metrics))


def _metrics(metrics: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the first metrics of the validation stream, else of the training stream."""
    values = metrics.get("validation") or metrics.get("train") or {}
    return "\n".join(f"{name} {value:.4f}" for name, value in list(values.items())[:_SHOWN_METRICS])
