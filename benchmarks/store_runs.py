"""What a run costs in a store of objects, S3 on loopback: a commit, and what its driver asks while it trains.

A plain upload is obstore's, of the same files. Requests are counted by a door in front of the server.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from pathlib import Path

import obstore
from _report import figure, report
from _store_requests import CountingDoor
from object_stores import s3_server
from obstore.store import S3Store

from sparktf.clock import SystemClock
from sparktf.hadoop import HadoopConf
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.sequence import Cursor
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import CheckpointStore, Manifest, upload_folder
from sparktf.storage.transactions.fence import Fence
from sparktf.storage.transactions.ownership import Ownership
from sparktf.wire.uploads import StagedFile

NBYTES, FILES, RUNS = 200_000_000, 2, 5
ROOT = "s3a://bench/runs"


def manifest_of(step: int, files: tuple[StagedFile, ...]) -> Manifest:
    """Returns the manifest of a checkpoint."""
    return Manifest(
        files=files,
        step=step,
        epoch=0,
        cursor=Cursor(),
        rows_trained=step,
        config_hash="c",
        plan_hash="p",
        keras="keras",
        versions={},
        created=dt.datetime.now(dt.UTC).isoformat(),
    )


def main() -> None:
    """Measures, and reports."""
    with tempfile.TemporaryDirectory() as work, s3_server(Path(work, "s3")) as server:
        door = CountingDoor(server.endpoint)
        folder = Path(work, "checkpoint")
        folder.mkdir()
        for number in range(FILES):
            (folder / f"part-{number}").write_bytes(os.urandom(NBYTES // FILES))
        by_door = FileSystems(HadoopConf(properties=server.hadoop() | {"fs.s3a.endpoint": door.endpoint}))
        direct = FileSystems(HadoopConf(properties=server.hadoop()))
        keys = server.hadoop()
        plain = S3Store(
            "bench",
            endpoint=server.endpoint,
            access_key_id=keys["fs.s3a.access.key"],
            secret_access_key=keys["fs.s3a.secret.key"],
            client_options={"allow_http": True},
        )
        obstore.put(plain, "made", b"")
        times = _times(direct, plain, folder)
        requests = _requests(by_door, door, folder)
        report(
            "store_runs",
            [
                figure("commit of 200 MB / plain upload of it", times, unit="", goal="<= 1.2"),
                figure("requests a commit, beside its files", requests, unit="", goal="<= 12"),
                figure("requests of a driver in a minute of training", [_beats(by_door, door)], unit="", goal="<= 4"),
            ],
        )


def _run(systems: FileSystems, run_id: str) -> tuple[CheckpointStore, RunDirectory]:
    rundir, storage = RunDirectory(ROOT, "t", run_id), systems.open_runs(ROOT)
    owner = Ownership(storage, storage, rundir, Application("bench", 1), SystemClock(), 60.0)
    assert owner.take_idle()
    fence = Fence(storage, rundir, owner=owner)
    fence.hold()
    return CheckpointStore(storage, rundir, 2, fence=fence), rundir


def _times(systems: FileSystems, plain: S3Store, folder: Path) -> list[float]:
    store, rundir = _run(systems, "times")
    storage, ratios = systems.open_runs(ROOT), []
    for step in range(1, RUNS + 2):
        began_s = time.perf_counter()
        staged = rundir.staged(1, str(step))
        store.commit(manifest_of(step, upload_folder(storage, folder, staged)), staged)
        commit_s = time.perf_counter() - began_s
        began_s = time.perf_counter()
        for file in sorted(folder.iterdir()):
            obstore.put(plain, f"plain/{step}/{file.name}", file)
        plain_s = time.perf_counter() - began_s
        obstore.delete(plain, [f"plain/{step}/{file.name}" for file in folder.iterdir()])
        ratios.append(commit_s / plain_s)
    return ratios[1:]  # the first one has the server make its volumes


def _requests(systems: FileSystems, door: CountingDoor, folder: Path) -> list[float]:
    store, rundir = _run(systems, "requests")
    storage, counts = systems.open_runs(ROOT), []
    small = folder.parent / "small"
    small.mkdir()
    for number in range(FILES):
        (small / f"part-{number}").write_bytes(b"x" * 1000)
    for step in range(1, RUNS + 4):
        door.take()
        staged = rundir.staged(1, str(step))
        store.commit(manifest_of(step, upload_folder(storage, small, staged)), staged)
        counts.append(float(sum(door.take().values()) - FILES))
    return counts[3:]  # with checkpoints to remove


def _beats(systems: FileSystems, door: CountingDoor) -> float:
    """Counts what an owner's beats take in the time after which it would count as gone: a minute, unless configured."""
    rundir, storage = RunDirectory(ROOT, "t", "beats"), systems.open_runs(ROOT)
    owner = Ownership(storage, storage, rundir, Application("bench", 1), SystemClock(), 6.0)
    owner.acquire(print, wait=False)
    door.take()
    time.sleep(6.3)  # a last beat comes at the end of the six seconds
    count = sum(door.take().values())
    owner.release()
    return float(count)


if __name__ == "__main__":
    main()
