"""Finds an exported model by any folder of a run or of its published versions."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from pydantic import ValidationError

from sparktf.config.job import JobConfig
from sparktf.config.predict_section import AS_OF, PUBLISHED, RUN
from sparktf.errors import (
    ConfigError,
    ModelContractError,
    SourceNotFoundError,
    StorageNotFoundError,
    TornCheckpointError,
)
from sparktf.nightly.foreknowledge import newest_before
from sparktf.published.serving import CURRENT, Serving
from sparktf.rundir import SERVING, RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.wire.exported import EXPORTED, ModelFeed

_GRAPH = "saved_model.pb"
_APART = "saved_model"


class ExportedModel(NamedTuple):
    """An exported model."""

    folder: str  # The folder of `feed.json`: that of a version, or `model` of a run
    saved_model: str  # The folder of the SavedModel: the same one for a version
    files: tuple[str, ...]  # Of the SavedModel, as paths below it
    key: str  # Unique to this model, also among later ones in the same place
    feed: ModelFeed


def located_model(config: JobConfig, model: str, day: str, file_systems: FileSystems) -> tuple[str, str]:
    """Returns the path of a model, and the label of its version.

    Args:
        model: The value of `predict.model`.
        day: The day to score, as YYYY-MM-DD.

    Raises:
        ConfigError: there is none.
        StorageError: the storage failed.
    """
    root = file_systems.normalise(config.output.path)
    storage = file_systems.open_runs(root)
    serving = Serving(storage, root, config.name)
    if model == AS_OF:
        found = newest_before(serving, config.name, day)
        return found.folder, str(found.number)
    if model == PUBLISHED:
        version = serving.current_version()
        if version is None:
            raise ConfigError(
                f"predict.model: {PUBLISHED}: {config.name} has no published model in {serving.path}: publish one, or "
                "name a run's by run:<id>"
            )
        return version.folder, str(version.number)
    if model.startswith(RUN):
        rundir = RunDirectory(root, config.name, model.removeprefix(RUN))
        if not storage.exists(rundir.model):
            raise ConfigError(f"predict.model: {model}: {rundir.path} has no model: name a run that ended with one")
        return rundir.model, model
    path = file_systems.normalise(model)
    return path, path


def find_model(storage: Storage, path: str) -> ExportedModel:
    """Returns the model at a path.

    Args:
        path: A published version, `<output.path>/<name>` or its `serving` for the current one, a run, or its `model`.

    Raises:
        SourceNotFoundError: there is none.
        ModelContractError: it cannot score, since it does not name the columns of its inputs.
        TornCheckpointError: `CURRENT` names no version.
        StorageError: the storage failed.
    """
    path = path.rstrip("/")
    for folder in (path, f"{path}/model", f"{path}/{SERVING}"):
        if storage.exists(f"{folder}/{_GRAPH}"):
            return _read(storage, folder, folder)
        if storage.exists(f"{folder}/{_APART}/{_GRAPH}"):
            return _read(storage, folder, f"{folder}/{_APART}")
        current = _current(storage, folder)
        if current is not None:
            return _read(storage, current, current)
    raise SourceNotFoundError(
        f"{path} has no model: name a published version, {SERVING} with its {CURRENT}, a run that has ended, or its "
        "model folder"
    )


def _current(storage: Storage, serving: str) -> str | None:
    """Returns the folder of the current version; None without versions."""
    try:
        number = storage.read_bytes(f"{serving}/{CURRENT}").decode(errors="replace").strip()
    except StorageNotFoundError:
        return None
    if not number.isdigit() or not storage.exists(f"{serving}/{number}/{_GRAPH}"):
        raise TornCheckpointError(f"{serving}/{CURRENT} names a version that does not exist")
    return f"{serving}/{number}"


def saved_files(storage: Storage, saved_model: str) -> tuple[tuple[str, ...], str]:
    """Returns the files of a SavedModel, as paths below its folder, and a key that no other model has.

    Raises:
        SourceNotFoundError: there is none.
        StorageError: the storage failed.
    """
    saved_model = saved_model.rstrip("/")
    if not storage.exists(f"{saved_model}/{_GRAPH}"):
        raise SourceNotFoundError(f"there is no SavedModel in {saved_model}")
    entries = [entry for entry in storage.walk(saved_model) if _belongs(entry.path.removeprefix(f"{saved_model}/"))]
    told = [[entry.path, entry.nbytes, entry.modified_ms] for entry in entries]
    files = tuple(entry.path.removeprefix(f"{saved_model}/") for entry in entries)
    return files, hashlib.sha256(repr(told).encode()).hexdigest()


def _read(storage: Storage, folder: str, saved_model: str) -> ExportedModel:
    try:
        feed = ModelFeed.model_validate_json(storage.read_bytes(f"{folder}/{EXPORTED}"))
    except StorageNotFoundError:
        raise ModelContractError(
            f"{folder} has no {EXPORTED} with the columns of its inputs: it was exported by an older "
            "version of sparktf: train it again"
        ) from None
    except ValidationError as error:
        wrong = f"{error.error_count()} of its fields are not as this version writes them"
        raise ModelContractError(f"{folder}/{EXPORTED} cannot be read: {wrong}") from None
    files, key = saved_files(storage, saved_model)
    return ExportedModel(folder, saved_model, files, key, feed)


def _belongs(file: str) -> bool:
    """Whether a file in the folder is part of the SavedModel."""
    return file in (_GRAPH, "fingerprint.pb") or file.startswith(("variables/", "assets/"))
