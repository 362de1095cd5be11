"""Old runs of one name, and their removal."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from sparktf.errors import ConfigError, StorageNotFoundError
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage, name_of
from sparktf.storage.fence import Fence

_REMOVED = "_removed-"


def prune_runs(storage: Storage, root: str, name: str, keep: int, spared: Collection[str]) -> tuple[str, ...]:
    """Deletes all ended runs of a name but the newest `keep`; returns the ids of those that are gone.

    A run without a result, and one that a driver holds, is left alone: it may be under way.

    Args:
        spared: Ids of runs that stay however old they are.

    Raises:
        StorageError: the storage failed.
    """
    above = f"{root.rstrip('/')}/{name}"
    ended: list[tuple[int, RunDirectory]] = []
    for entry in storage.list(above):
        folder = name_of(entry.path)
        if folder.startswith(_REMOVED):
            storage.delete(entry.path)
        elif entry.is_dir:
            ended += _ended(storage, root, name, folder)
    ended.sort(key=lambda found: found[0], reverse=True)
    old = [rundir for _, rundir in ended[keep:] if rundir.run_id not in spared]
    return tuple(rundir.run_id for rundir in old if _remove(storage, rundir))


def _ended(storage: Storage, root: str, name: str, folder: str) -> list[tuple[int, RunDirectory]]:
    """Returns a run with the time of its end, if the folder is that of a run that has one."""
    try:
        rundir = RunDirectory(root, name, folder)
        return [(storage.stat(rundir.result).modified_ms, rundir)]
    except (ConfigError, StorageNotFoundError):
        return []


def _remove(storage: Storage, rundir: RunDirectory) -> bool:
    """Deletes a run unless somebody holds it."""
    fence = Fence(storage, rundir)
    if not fence.claim() or fence.path is None:
        return False
    above, nonce = rundir.path.rpartition("/")[0], secrets.token_hex(4)
    leaving, removed = f"{above}/_leaving-{nonce}", f"{above}/{_REMOVED}{nonce}"
    storage.rename(rundir.path, leaving)
    if not storage.exists(f"{leaving}/{name_of(fence.path)}"):
        # A driver has begun with it since, and moved the claim away.
        storage.rename(leaving, rundir.path)
        return False
    storage.rename(leaving, removed)
    storage.delete(removed)
    return True
