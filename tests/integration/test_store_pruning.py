"""Old runs in real servers of stores: which are deleted, by one swap, and what a driver finds that comes back late."""

from __future__ import annotations

import pytest
from contenders import LIMIT_S, Contender
from object_stores import S3Server, StoreServer, begin_upload
from pretend import PretendClock

from sparktf.errors import FencedOffError, StorageError, Verdict
from sparktf.hadoop import HadoopConf
from sparktf.nightly.pruning import Pruner
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.objects.object_storage import ObjectStorage
from sparktf.storage.transactions.ownership import Ownership

NOW_S = 1.9e9


@pytest.fixture
def systems(server: StoreServer) -> FileSystems:
    return FileSystems(HadoopConf(properties=server.hadoop()))


def leave_run(storage: Storage, root: str, run_id: str) -> Contender:
    """Leaves a run that is done."""
    rundir = RunDirectory(root, "t", run_id)
    driver = Contender(run_id, storage, rundir)
    driver.begin()
    driver.fence.put(rundir.config, b"name: t")
    storage.write_bytes(rundir.log("001-worker-0"), b"a log")
    result = RunResult(run_id=run_id, name="t", verdict=Verdict.DONE)
    driver.fence.put(rundir.result, result.model_dump_json().encode())
    return driver


def pruner(storage: Storage, root: str) -> Pruner:
    def claim(rundir: RunDirectory) -> Ownership:
        return Ownership(storage, storage, rundir, Application("pruner", 1), PretendClock(), LIMIT_S)

    def warn(text: str) -> None:
        raise AssertionError(text)

    return Pruner(storage, root, "t", claim, warn, NOW_S)


def objects_of(systems: FileSystems, run: str) -> list[str]:
    store = systems.open(run)
    assert isinstance(store, ObjectStorage)
    return [entry.path for entry in store.below(run)]


def test_old_runs_go_whole_and_nothing_stays_but_their_emptied_names(systems: FileSystems, server: StoreServer) -> None:
    root = f"{server.root}/pruned"
    storage = systems.open_runs(root)
    for run_id in ("a", "b", "c"):
        leave_run(storage, root, run_id).end()
        if isinstance(server, S3Server):
            begin_upload(server, f"pruned/t/{run_id}/logs/001-worker-0.log")
    assert sorted(pruner(storage, root).prune(1, ())) == ["a", "b"]
    assert objects_of(systems, f"{root}/t/a") == []
    assert objects_of(systems, f"{root}/t/c") != []
    left = [f"{root}/t/c/logs/001-worker-0.log"] if isinstance(server, S3Server) else []  # Azure drops them itself
    assert [upload.path for upload in storage.uploads(root)] == left
    assert not storage.exists(RunDirectory(root, "t", "a").result)
    again = leave_run(storage, root, "a")  # the id may be used again
    again.end()
    assert storage.exists(RunDirectory(root, "t", "a").result)


def test_a_run_that_is_at_work_stays(systems: FileSystems, server: StoreServer) -> None:
    root = f"{server.root}/working"
    storage = systems.open_runs(root)
    leave_run(storage, root, "a")
    leave_run(storage, root, "b").end()
    assert pruner(storage, root).prune(1, ()) == ()
    assert storage.exists(RunDirectory(root, "t", "a").result)


def test_a_driver_that_was_frozen_since_before_its_run_was_deleted_writes_nothing(
    systems: FileSystems, server: StoreServer
) -> None:
    root = f"{server.root}/frozen"
    storage = systems.open_runs(root)
    frozen = leave_run(storage, root, "a")
    leave_run(storage, root, "b").end()
    frozen.owner.release()
    assert pruner(storage, root).prune(1, ()) == ("a",)
    with pytest.raises((FencedOffError, StorageError)):
        frozen.write()
    assert not storage.exists(RunDirectory(root, "t", "a").result)


def test_a_driver_that_takes_the_run_while_it_is_being_deleted_keeps_it(
    systems: FileSystems, server: StoreServer
) -> None:
    root = f"{server.root}/taken"
    storage = systems.open_runs(root)
    leave_run(storage, root, "a").end()
    leave_run(storage, root, "b").end()
    rundir = RunDirectory(root, "t", "a")
    plain_delete = storage.delete_if
    taken: list[Contender] = []

    def delete_late(folder: str, inside: str) -> bool | None:
        driver = Contender("new", storage, rundir)
        driver.owner.acquire(driver.said.append, wait=True)
        driver.fence.hold()
        taken.append(driver)
        return plain_delete(folder, inside)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(storage, "delete_if", delete_late)
        pruned = pruner(storage, root).prune(1, ())
    assert pruned == ()
    taken[0].write()
    assert storage.read_bytes(rundir.result) == b"new"
