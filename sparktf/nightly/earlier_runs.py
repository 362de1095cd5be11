"""Results of earlier runs of a name, to predict the next one."""

from __future__ import annotations

from collections.abc import Sequence

from sparktf.errors import ConfigError, CorruptFileError, StorageNotFoundError, Verdict
from sparktf.nightly.natural_order import natural_key
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.results import read_result

LOOKED_AT = 5
"""Runs that predict the next one: enough for a slow night to be among them, too few for last year."""

_TRIED = 20
"""The most folders that are read: a name may have thousands of runs, none of them done."""

_TRAINED = (Verdict.DONE, Verdict.GATED)


def earlier_runs(storage: Storage, root: str, name: str, but: str = "", most: int = LOOKED_AT) -> list[RunResult]:
    """Returns the results of the last runs of a name that trained to their end, by id, the last first.

    Args:
        but: Id of a run to leave out.

    Raises:
        StorageError: the storage failed.
    """
    try:
        folders = [name_of(entry.path) for entry in storage.list(f"{root.rstrip('/')}/{name}") if entry.is_dir]
    except StorageNotFoundError:
        return []
    found: list[RunResult] = []
    for folder in sorted(folders, key=natural_key, reverse=True)[:_TRIED]:
        result = None if folder == but else _result(storage, root, name, folder)
        if result is not None and result.verdict in _TRAINED:
            found.append(result)
        if len(found) == most:
            break
    return found


def ending_s(runs: Sequence[RunResult]) -> float:
    """Returns the longest time that some runs took after their training, in seconds; 0 if unknown.

    It begins with the last update: evaluation, checkpoint, export, and the driver's work until the run ends.
    """
    return max((run.ending.total_s + run.seconds.get("publish", 0.0) for run in runs if run.ending), default=0.0)


def _result(storage: Storage, root: str, name: str, folder: str) -> RunResult | None:
    """Returns the result of a run; None if it has none, or one of another version."""
    try:
        return read_result(storage, RunDirectory(root, name, folder).result)
    except (ConfigError, CorruptFileError, StorageNotFoundError):
        return None
