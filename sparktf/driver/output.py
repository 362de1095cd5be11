"""Whether a run's results can be kept, found out before anything is held."""

from __future__ import annotations

from sparktf.errors import PreflightError, StorageError, StorageUnavailableError
from sparktf.storage.base import Storage


def check_output(storage: Storage, path: str) -> None:
    """Refuses an output that cannot be written, renamed or deleted in.

    Raises:
        PreflightError: with the file system's reason.
        StorageUnavailableError: the file system is away, which says nothing about the path.
    """
    try:
        storage.probe(path)
    except StorageUnavailableError:
        raise
    except StorageError as e:
        raise PreflightError(f"output.path cannot be written: {e}") from e
