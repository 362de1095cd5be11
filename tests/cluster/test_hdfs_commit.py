"""The commit protocol on HDFS: another process that looks at any moment never sees half a checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from minihadoop import MiniHadoop
from minihadoop.config import MIB
from sparktf.errors import FencedOffError
from sparktf.hadoop import HadoopConf
from sparktf.published.serving import ModelManifest, Serving
from sparktf.rundir import RunDirectory
from sparktf.sequence import Cursor
from sparktf.storage.base import Storage, Timeouts
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import MANIFEST, CheckpointStore, Manifest, read_manifest, upload_folder
from sparktf.storage.transactions.fence import Fence

# Looks until its stdin ends; prints what it saw that nobody may see, and the steps that it saw whole.
READER = textwrap.dedent(
    """
    import json, select, sys
    from sparktf.hadoop import HadoopConf
    from sparktf.rundir import RunDirectory
    from sparktf.storage.base import Timeouts
    from sparktf.storage.file_systems import FileSystems
    from sparktf.storage.transactions.checkpoints import CheckpointStore

    storage = FileSystems(HadoopConf.from_environment(), timeouts=Timeouts(2, 3, 60)).open("/runs")
    torn, steps, looks = [], [], 0
    rundir = RunDirectory(sys.argv[1], "t", "r")
    store = CheckpointStore(storage, rundir, 3, on_torn=lambda *report: torn.append(report))
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        found = store.latest()
        looks += 1
        if found is not None and (not steps or steps[-1] != found[0].step):
            steps.append(found[0].step)
    print(json.dumps({"torn": torn, "steps": steps, "looks": looks}))
    """
)


@pytest.fixture
def root(hadoop: MiniHadoop) -> Iterator[str]:
    conf = HadoopConf.from_folder(hadoop.conf_dir())
    yield f"{conf.default_fs}/runs"
    hadoop.hdfs.delete("/runs")


@pytest.fixture
def storage(hadoop: MiniHadoop, root: str) -> Storage:
    return FileSystems(HadoopConf.from_folder(hadoop.conf_dir()), timeouts=Timeouts(2, 3, 60)).open(root)


def write_local(folder: Path, step: int) -> Path:
    """Writes the files of a checkpoint, of three blocks in all."""
    folder.mkdir()
    (folder / "ckpt.index").write_bytes(f"index {step}".encode())
    (folder / "ckpt.data").write_bytes(os.urandom(9 * MIB))
    return folder


def commit(store: CheckpointStore, storage: Storage, rundir: RunDirectory, local: Path, step: int) -> None:
    staged = rundir.staged(1, f"step-{step:012d}")
    manifest = Manifest(
        step=step,
        epoch=0,
        cursor=Cursor(),
        rows_trained=0,
        config_hash="",
        plan_hash="",
        keras="keras",
        versions={},
        created="",
        files=upload_folder(storage, local, staged),
    )
    store.commit(manifest, staged)


def test_a_reader_never_sees_half_a_checkpoint_while_datanodes_die(
    hadoop: MiniHadoop, storage: Storage, root: str, tmp_path: Path
) -> None:
    rundir = RunDirectory(root, "t", "r")
    store = CheckpointStore(storage, rundir, keep=3)
    store.fence.acquire(1)
    with subprocess.Popen(
        [sys.executable, "-c", READER, root],
        env=hadoop.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as reader:
        hosts = [host.name for host in hadoop.config.workers]
        for step in range(1, 5):
            if step % 2 == 0:
                hadoop.kill("datanode", hosts[step // 2 % len(hosts)])
            commit(store, storage, rundir, write_local(tmp_path / str(step), step), step)
            if step % 2 == 0:
                hadoop.restart("datanode", hosts[step // 2 % len(hosts)])
        said, complained = reader.communicate("done\n", timeout=60)
    assert reader.returncode == 0, complained
    seen = json.loads(said)
    assert seen["torn"] == []
    assert seen["steps"] == sorted(seen["steps"])
    assert len(seen["steps"]) >= 2
    assert store.list() == (2, 3, 4)


def test_a_committer_that_is_fenced_off_cannot_commit(
    hadoop: MiniHadoop, storage: Storage, root: str, tmp_path: Path
) -> None:
    rundir = RunDirectory(root, "t", "r")
    lost = Fence(storage, rundir)
    old, new = CheckpointStore(storage, rundir, 3, fence=lost), CheckpointStore(storage, rundir, 3)
    old.fence.acquire(1)
    commit(old, storage, rundir, write_local(tmp_path / "1", 1), 1)
    new.fence.acquire(2)
    storage.write_bytes(f"{rundir.model}/x", b"of the new one")
    with pytest.raises(FencedOffError, match="belongs to another submission now"):
        commit(old, storage, rundir, write_local(tmp_path / "2", 2), 2)
    staged = rundir.staged(1, "model")
    with pytest.raises(FencedOffError, match="belongs to another submission now"):
        old.commit_model(upload_folder(storage, write_local(tmp_path / "model", 2), staged), staged, rundir.model)
    for change in (lambda: lost.put(rundir.result, b"{}"), lambda: lost.take_in(rundir.model), lambda: lost.acquire(3)):
        with pytest.raises(FencedOffError):
            change()
    assert storage.read_bytes(f"{rundir.model}/x") == b"of the new one"
    assert not storage.exists(rundir.result)
    old.fence.release()
    commit(new, storage, rundir, write_local(tmp_path / "3", 3), 3)
    staged = rundir.staged(2, "model")
    new.commit_model(upload_folder(storage, tmp_path / "3", staged), staged, rundir.model)
    assert storage.read_bytes(f"{rundir.model}/ckpt.index") == b"index 3"
    assert new.list() == (1, 3)
    new.fence.release()
    assert sorted(entry.path.rpartition("/")[2] for entry in storage.list(rundir.checkpoints)) == [
        "step-000000000001",
        "step-000000000003",
    ]


class ExportedModel(NamedTuple):
    """A model in a local folder; see `Candidate`."""

    run_id: str
    date: str
    local: Path
    storage: Storage

    def stage(self, folder: str) -> str:
        staged = f"{folder}/_staged-{self.run_id}"
        manifest = ModelManifest(
            files=upload_folder(self.storage, self.local, staged),
            name="t",
            run_id=self.run_id,
            date=self.date,
            published="",
            plan_hash="",
            steps=0,
        )
        self.storage.write_bytes(f"{staged}/{MANIFEST}", manifest.model_dump_json().encode())
        return staged


def test_a_reader_always_finds_a_whole_model_while_others_are_published_and_rolled_back(
    hadoop: MiniHadoop, storage: Storage, root: str, tmp_path: Path
) -> None:
    serving = Serving(storage, root, "t")
    local = write_local(tmp_path / "model", 1)
    serving.publish(ExportedModel("r1", "2026-11-20", local, storage), lambda: None)
    ended, seen = threading.Event(), [1]

    def follow() -> None:
        while not ended.is_set():
            number = serving.current()
            assert number is not None
            read_manifest(storage, f"{serving.path}/{number}", ModelManifest)
            seen.append(number)

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(follow)
        for number in range(2, 6):
            found = serving.publish(ExportedModel(f"r{number}", "2026-11-20", local, storage), lambda: None)
            assert found.version == number
        assert serving.publish(ExportedModel("old", "2026-11-19", local, storage), lambda: None).version is None
        ended.set()
        reader.result(timeout=120)
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert set(seen) <= {1, 2, 3, 4, 5}
    assert serving.rollback(2) == 2
    assert serving.prune(1) == (1, 3, 4)
    assert sorted(hadoop.hdfs.names("/runs/t/serving")) == ["2", "CURRENT", "_withdrawn-5"]
    assert hadoop.hdfs.get("/runs/t/serving/CURRENT") == b"2\n"
    assert serving.rollback(5) == 5
    read_manifest(storage, f"{serving.path}/5", ModelManifest)


class KilledError(BaseException):
    """The process is gone."""


CHANGES = {"write_bytes", "upload", "copy", "make_dirs", "rename", "replace", "delete"}


class MortalStorage:
    """A storage of a process that is killed before one of its changes: from then on it makes no call.

    To be killed before a call that changes nothing leaves the same as to be killed before the next change.
    """

    def __init__(self, storage: Storage, at: int) -> None:
        self.calls = 0
        self.is_dead = False
        self._storage = storage
        self._at = at

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._storage, name)

        def made(*arguments: Any) -> Any:
            self.is_dead = self.is_dead or (name in CHANGES and self.calls >= self._at)
            if self.is_dead:
                raise KilledError
            self.calls += name in CHANGES
            return call(*arguments)

        return made


@pytest.mark.more(
    "simulation/test_serving.py::test_readers_see_whole_models_alone_while_publishes_are_killed_at_every_call",
    "trainer/test_polled_models.py::test_a_reader_polls_while_publishing_processes_are_killed_for_real",
)
@pytest.mark.timeout(400)
def test_a_reader_polls_while_publishers_are_killed_at_each_change(storage: Storage, root: str, tmp_path: Path) -> None:
    serving, local = Serving(storage, root, "t"), write_local(tmp_path / "model", 1)
    ended, seen = threading.Event(), list[int]()

    def publish(number: int, through: Storage) -> None:
        candidate = ExportedModel(f"r{number:03d}", "2026-11-20", local, through)
        Serving(through, root, "t").publish(candidate, lambda: None)

    def follow() -> None:
        while not ended.is_set():
            number = serving.current()
            assert number is not None
            read_manifest(storage, f"{serving.path}/{number}", ModelManifest)
            highest = max(version.number for version in serving.versions())
            read_manifest(storage, f"{serving.path}/{highest}", ModelManifest)
            seen.append(number)

    publish(0, storage)
    killed = 0
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(follow)
        try:
            while killed < 40:
                try:
                    publish(killed + 1, cast(Storage, MortalStorage(storage, at=killed)))
                    break
                except KilledError:
                    killed += 1
                    publish(killed, storage)  # as the scheduler's next try
        finally:
            ended.set()
        reader.result(timeout=60)
    assert 8 < killed < 40
    assert seen == sorted(seen)
    assert len(set(seen)) > killed // 3
    whole = [serving.manifest(version).run_id for version in serving.versions()]
    assert len(whole) == len(set(whole)), "no run has two versions"
    assert whole[-1] == f"r{killed + 1:03d}"
