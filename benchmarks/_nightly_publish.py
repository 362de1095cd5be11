"""What it costs to publish a model of 200 MB, beside copying its files on the same storage."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from _report import Figure, figure, report

from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.stored_plan import data_read, save_plan
from sparktf.errors import Verdict
from sparktf.feature import FeedSpec
from sparktf.hadoop import HadoopConf
from sparktf.published.release import Release
from sparktf.published.serving import Serving
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import MANIFEST, FileManifest, upload_folder
from sparktf.wire.uploads import StagedFile

MB = 1_000_000
FILES = {
    "saved_model/variables/variables.data-00000-of-00001": 98 * MB,
    "model.keras": 98 * MB,
    "saved_model/saved_model.pb": 3 * MB,
    "saved_model/variables/variables.index": 100_000,
    "saved_model/fingerprint.pb": 100,
    "predictions.npz": 800_000,
    "assets.json": 1000,
}


def figures(runs: int, root: str | None = None) -> list[Figure]:
    """Returns the figures; publishing and copying take turns: both see the same machine.

    Args:
        root: A folder on any storage. Default: a temporary one on the local disk.
    """
    with _folder() as local:
        root = root or f"{local}/runs"
        storage = FileSystems(HadoopConf.from_environment()).open(root)
        rundir, files = _exported(storage, root, local)
        pairs = []
        for _ in range(runs + 1):
            copied = _seconds(partial(_copy, storage, rundir.model, files, f"{root}/copied", local))
            published = _seconds(partial(_publish, storage, rundir))
            storage.delete(f"{root}/copied")
            storage.delete(f"{root}/{rundir.name}/serving")
            pairs.append((published, copied))
        storage.delete(f"{root}/{rundir.name}")
    del pairs[0]  # the first one warms the caches
    return [
        figure("publish 200 MB", [published for published, _ in pairs], unit="s"),
        figure("copy 200 MB", [copied for _, copied in pairs], unit="s"),
        figure("publish / copy", [published / copied for published, copied in pairs], unit="", goal="<= 1.5"),
    ]


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as folder:
        yield Path(folder)


def _exported(storage: Storage, root: str, local: Path) -> tuple[RunDirectory, tuple[StagedFile, ...]]:
    """Leaves what a run leaves that has exported a model."""
    rundir = RunDirectory(root, "bench", "run")
    for name, nbytes in FILES.items():
        path = local / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(nbytes))
    files = upload_folder(storage, local / "model", rundir.model)
    storage.write_bytes(f"{rundir.model}/{MANIFEST}", FileManifest(files=files).model_dump_json().encode())
    save_plan(Plan(FeedSpec(features=()), "", (), (), {}), storage, rundir.plan)
    return rundir, files


def _copy(storage: Storage, source: str, files: tuple[StagedFile, ...], target: str, local: Path) -> None:
    """Copies files with what the storage has: on the local disk in one go, elsewhere by way of this machine."""
    for file in files:
        path = Path(source, file.name)
        if not path.exists():
            path = local / "on-its-way"
            storage.download(f"{source}/{file.name}", path)
        storage.upload(path, f"{target}/{file.name}")


def _publish(storage: Storage, rundir: RunDirectory) -> None:
    result = RunResult(run_id=rundir.run_id, name=rundir.name, verdict=Verdict.DONE, model=rundir.model)
    release = Release(storage, rundir, result, "2026-11-20", time.time(), partial(data_read, storage, rundir.plan))
    Serving(storage, rundir.root, rundir.name).publish(release, lambda: None)


def _seconds(work: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


if __name__ == "__main__":
    report("nightly-publish", figures(5, *sys.argv[1:]))
