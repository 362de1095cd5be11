"""Finds the model that a day is scored with."""

from __future__ import annotations

from sparktf.config.job import JobConfig
from sparktf.config.predict_section import AS_OF, PUBLISHED, RUN
from sparktf.errors import ConfigError
from sparktf.nightly.foreknowledge import newest_before
from sparktf.published.serving import Serving
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems


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
    storage = file_systems.open(root)
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
            raise ConfigError(f"predict.model: {model}: {rundir.path} has no model")
        return rundir.model, model
    path = file_systems.normalise(model)
    return path, path
