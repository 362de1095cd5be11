"""Models of later days: a run or a job of an old day that uses one knows rows that its day had not seen."""

from __future__ import annotations

from contextlib import suppress

from sparktf.config.job import JobConfig
from sparktf.errors import ConfigError, CorruptFileError, StorageNotFoundError, TornCheckpointError
from sparktf.published.serving import ModelManifest, Serving, Version
from sparktf.rundir import RESULT
from sparktf.storage.base import Storage
from sparktf.storage.transactions.checkpoints import parse_manifest
from sparktf.storage.transactions.results import read_result


def knows_later(use: str, label: str, date: str, day: str) -> str:
    """Returns the warning that a model knows rows of later days than the one it is used for; "" if it does not.

    Args:
        use: The use in words: "this run of 2026-11-20 begins from".
        label: The model's name.
        date: The model's day, as YYYY-MM-DD; "" if unknown.
        day: The day that it is used for.
    """
    return f"{use} {label}, which is of {date}: it knows later rows" if date > day else ""


def day_of(config: JobConfig, today: str) -> str:
    """Returns the day of a run's model: that of `publish.date` or of the configuration, else `today`."""
    published_of = config.publish.date if config.publish is not None else None
    return published_of or str(config.date or today)


def date_of(storage: Storage, folder: str) -> str:
    """Returns the day of an exported model: of a version, or of a run's `model`; "" if unknown.

    Raises:
        StorageError: the storage failed.
    """
    with suppress(TornCheckpointError):
        return parse_manifest(storage, folder, ModelManifest).date
    with suppress(StorageNotFoundError, CorruptFileError):
        result = read_result(storage, f"{folder.rstrip('/').rpartition('/')[0]}/{RESULT}")
        return result.date or result.started[: len("2026-11-20")]
    return ""


def newest_before(serving: Serving, name: str, day: str) -> Version:
    """Returns the newest version of an earlier day that was not rolled back.

    Raises:
        ConfigError: there is none.
        StorageError: the storage failed.
    """
    found: list[tuple[str, int, Version]] = []
    for version in serving.versions():
        with suppress(TornCheckpointError):  # pruned at this moment
            if not version.withdrawn:
                found.append((serving.manifest(version).date, version.number, version))
    earlier = [entry for entry in found if entry[0] < day]
    if not earlier:
        there = f"the oldest of {len(found)} is of {min(found)[0]}" if found else "none is published"
        raise ConfigError(
            f"predict.model: as-of: no version of {name} in {serving.path} is of a day before {day}: {there}"
        )
    return max(earlier)[2]
