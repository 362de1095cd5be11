"""The model that a run begins from: `train.init_from`, and `train.full_every`."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from typing import NamedTuple

from sparktf.config.duration import duration_text
from sparktf.config.job import JobConfig
from sparktf.config.train import PUBLISHED
from sparktf.errors import ConfigError, CorruptFileError, StorageNotFoundError, TornCheckpointError
from sparktf.nightly.foreknowledge import day_of, knows_later
from sparktf.published.gated import FoundModel
from sparktf.published.serving import ModelManifest, Serving
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage, name_of
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import parse_manifest
from sparktf.storage.transactions.results import read_result
from sparktf.wire.model_source import ModelSource

_SUFFIX = ".keras"
_MODEL = f"model{_SUFFIX}"
_ASSETS = "assets.json"
_DAY_S = 86_400


class Beginning(NamedTuple):
    """The initial weights of a run."""

    source: ModelSource | None = None  # None for the model function's own initial weights
    scratch: str = ""  # Why these are used, if something else is configured
    warning: str = ""  # For the run's result


def beginning_of(config: JobConfig, rundir: RunDirectory, file_systems: FileSystems, today: dt.date) -> Beginning:
    """Returns the initial weights of a run without a checkpoint.

    Args:
        today: Day of a run without `--date`.

    Raises:
        ConfigError: `train.init_from` names no existing model.
        StorageError: the storage failed.
    """
    train, storage = config.train, file_systems.open_runs(rundir.root)
    if train.init_from is None:
        return Beginning()
    if train.init_path is not None:
        found = _at_path(file_systems.open_runs(train.init_path), train.init_path)
    elif train.init_run is not None:
        found = _of_run(storage, RunDirectory(rundir.root, rundir.name, train.init_run), rundir)
    else:
        published = _published(storage, rundir)
        if published is None:
            return Beginning(
                scratch=f"train.init_from: {PUBLISHED}: no model of {rundir.name} is published: trains from scratch"
            )
        found = published
    return decide(found, day_of(config, str(today)), train.full_every)


def decide(found: FoundModel, day: str, full_every_s: float | None) -> Beginning:
    """Returns whether a run begins from a model, or from scratch because the chain of warm starts is too long.

    A model whose last training from scratch is unknown counts as trained from scratch on its own day, and one without a
    day as trained today.
    """
    source = found.source.model_copy(update={"full_date": found.source.full_date or found.date or day})
    if full_every_s is not None and is_full_due(source.full_date, day, full_every_s):
        return Beginning(
            scratch=f"train.full_every: {duration_text(full_every_s)}: the weights of {source.label} go back to a "
            f"training from scratch of {source.full_date}: trains from scratch"
        )
    return Beginning(source, warning=knows_later(f"this run of {day} begins from", source.label, found.date, day))


def is_full_due(full_date: str, day: str, every_s: float) -> bool:
    """Whether a run of a day trains from scratch, given the day of the last training from scratch."""
    age = dt.date.fromisoformat(day) - dt.date.fromisoformat(full_date)
    return age.days * _DAY_S >= every_s


def _published(storage: Storage, rundir: RunDirectory) -> FoundModel | None:
    """Returns the current version; None if nothing is published."""
    serving = Serving(storage, rundir.root, rundir.name)
    number = serving.current()
    if number is None:
        return None
    version = serving.current_version()
    if version is None:
        raise ConfigError(
            f"train.init_from: {PUBLISHED}: CURRENT in {serving.path} names version {number}, which does not exist: "
            f"choose another one with sparktf rollback {rundir.name} --to VERSION"
        )
    try:
        manifest = serving.manifest(version)
    except TornCheckpointError as error:
        raise ConfigError(
            f"train.init_from: {PUBLISHED}: version {number} is damaged ({error}): choose another one with "
            f"sparktf rollback {rundir.name} --to VERSION"
        ) from None
    source = ModelSource(
        label=f"version {number}",
        path=version.folder,
        files=tuple(file.name for file in manifest.files),
        version=number,
        run_id=manifest.run_id,
        full_date=manifest.full_date,
    )
    return FoundModel(source, manifest.date)


def _of_run(storage: Storage, rundir: RunDirectory, own: RunDirectory) -> FoundModel:
    said = f"train.init_from: run:{rundir.run_id}"
    if rundir == own:
        raise ConfigError(f"{said} is this run itself, which resumes from its own checkpoints: name another run")
    if not storage.exists(rundir.path):
        raise ConfigError(f"{said}: there is no run {rundir.run}: {rundir.path} does not exist")
    if not storage.exists(f"{rundir.model}/{_MODEL}"):
        raise ConfigError(f"{said}: run {rundir.run} has no model: it has not ended, has failed, or exported none")
    source = ModelSource(
        label=f"run {rundir.run}", path=rundir.model, files=_files(storage, rundir.model, _MODEL), run_id=rundir.run_id
    )
    try:
        result = read_result(storage, rundir.result)
    except (CorruptFileError, StorageNotFoundError):  # not ended, or written by a later version
        return FoundModel(source)
    day = result.date or result.started[: len("2026-11-20")]
    carried_from = result.carried.full_date if result.carried is not None else ""
    return FoundModel(source.model_copy(update={"full_date": carried_from}), day)


def _at_path(storage: Storage, path: str) -> FoundModel:
    """Returns a `.keras` file, or that of a folder: an exported model's, or a published version's."""
    try:
        is_folder = storage.stat(path).is_dir
    except StorageNotFoundError:
        raise ConfigError(f"train.init_from: {path} does not exist: name a .keras file, or a folder with one") from None
    folder, name = (path, _MODEL) if is_folder else (path[: -len(name_of(path)) - 1], name_of(path))
    if not name.endswith(_SUFFIX) or not storage.exists(f"{folder}/{name}"):
        raise ConfigError(
            f"train.init_from: {path} is not a model: give {PUBLISHED}, run:<run id>, a {_SUFFIX} file, or a folder "
            f"that has {_MODEL}"
        )
    source = ModelSource(label=path, path=folder, files=_files(storage, folder, name))
    with suppress(TornCheckpointError):  # then it was not published
        manifest = parse_manifest(storage, folder, ModelManifest)
        update = {"run_id": manifest.run_id, "full_date": manifest.full_date}
        return FoundModel(source.model_copy(update=update), manifest.date)
    return FoundModel(source)


def _files(storage: Storage, folder: str, model: str) -> tuple[str, ...]:
    return (model, _ASSETS) if storage.exists(f"{folder}/{_ASSETS}") else (model,)
