"""The commit protocol: a reader sees whole checkpoints only, and there is only one committer."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from lakes import lake_config, plan_lake, write_lake
from pydantic import ValidationError

from sparktf.clock import SystemClock
from sparktf.driver.commit import Committer
from sparktf.errors import (
    FencedOffError,
    LifecycleError,
    StorageError,
    StorageExistsError,
    StorageNotFoundError,
    TornCheckpointError,
)
from sparktf.rundir import RunDirectory, checkpoint_name
from sparktf.sequence import Cursor
from sparktf.storage.base import Storage
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.checkpoints import (
    MANIFEST,
    CheckpointStore,
    FileManifest,
    Manifest,
    read_manifest,
    upload_folder,
)
from sparktf.wire.uploads import StagedFile

# Spawned, not forked: other tests of the same pytest may have left threads.
PROCESSES = multiprocessing.get_context("spawn")


class Killed(BaseException):
    """Stands for kill -9 inside the process: nothing in sparktf catches it."""


class DyingStorage(LocalStorage):
    """Dies just before one of its changes."""

    def __init__(self, changes_left: int) -> None:
        self.changes_left = changes_left

    def _change(self) -> None:
        if self.changes_left == 0:
            raise Killed
        self.changes_left -= 1

    def make_dirs(self, path: str) -> None:
        self._change()
        super().make_dirs(path)

    def write_bytes(self, path: str, content: bytes) -> None:
        self._change()
        super().write_bytes(path, content)

    def rename(self, source: str, target: str) -> None:
        self._change()
        super().rename(source, target)

    def delete(self, path: str) -> None:
        self._change()
        super().delete(path)


class SlowStorage(LocalStorage):
    """Says what it is about to rename to, and does so when told."""

    def __init__(self, driver: Connection) -> None:
        self.driver = driver

    def rename(self, source: str, target: str) -> None:
        self.driver.send(target)
        self.driver.recv()
        super().rename(source, target)


class InterruptedStorage(LocalStorage):
    """Lets something else happen before the rename onto a path that holds `before`."""

    def __init__(self, before: str, happens: Callable[[], object]) -> None:
        self.before, self.happens = before, happens

    def rename(self, source: str, target: str) -> None:
        if self.before in target:
            self.happens()
        super().rename(source, target)


class UndeletingStorage(LocalStorage):
    """May not delete."""

    def delete(self, path: str) -> None:
        raise StorageError(f"cannot delete {path}: read-only")


@pytest.fixture
def rundir(tmp_path: Path) -> RunDirectory:
    return RunDirectory(f"{tmp_path}/runs", "digits", "r1")


def open_store(rundir: RunDirectory, storage: Storage | None = None, keep: int = 3) -> CheckpointStore:
    return CheckpointStore(storage or LocalStorage(), rundir, keep)


def stage(rundir: RunDirectory, step: int, attempt: int = 1) -> tuple[Manifest, str]:
    """Uploads the files of a checkpoint whose content is its step, as trainers do."""
    local = Path(rundir.root).parent / f"local-{attempt}-{step}"
    for name in ("worker-0/weights", "worker-1/weights", "index"):
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        (local / name).write_bytes(f"{name} at {step}".encode() * 1000)
    staged = rundir.staged(attempt, checkpoint_name(step))
    manifest = Manifest(
        step=step,
        epoch=2,
        cursor=Cursor(epoch=2, done=((0, 10 * step),)),
        rows_trained=100 * step,
        config_hash="c",
        plan_hash="p",
        keras="keras",
        versions={"tensorflow": "2.21.0"},
        files=upload_folder(LocalStorage(), local, staged),
        created="2026-11-20T00:00:00+00:00",
        extra={"best": 0.5},
    )
    shutil.rmtree(local)
    return manifest, staged


def commit(store: CheckpointStore, rundir: RunDirectory, *steps: int, attempt: int = 1) -> None:
    for step in steps:
        store.commit(*stage(rundir, step, attempt))


def names(folder: str) -> list[str]:
    return sorted(os.listdir(folder))


class TestCommit:
    def test_a_committed_checkpoint_is_the_latest(self, rundir: RunDirectory) -> None:
        store = open_store(rundir)
        assert store.latest() is None
        assert store.list() == ()
        store.fence.acquire(1)
        commit(store, rundir, 10)
        manifest, staged = stage(rundir, 20)
        assert store.commit(manifest, staged) == rundir.checkpoint(20)
        assert open_store(rundir).latest() == (manifest, rundir.checkpoint(20))
        assert store.list() == (10, 20)
        assert [file.name for file in manifest.files] == ["index", "worker-0/weights", "worker-1/weights"]
        assert names(rundir.checkpoint(20)) == [MANIFEST, "index", "worker-0", "worker-1"]
        assert names(rundir.staging) == []

    def test_the_oldest_are_pruned(self, rundir: RunDirectory) -> None:
        store = open_store(rundir, keep=2)
        store.fence.acquire(1)
        commit(store, rundir, 10, 20, 30, 40)
        assert store.list() == (30, 40)

    def test_what_is_not_released_stays_until_it_is(self, rundir: RunDirectory) -> None:
        store = open_store(rundir, keep=1)
        store.fence.acquire(1)
        asked = []

        def release(steps: Sequence[int]) -> Sequence[int]:
            asked.append(tuple(steps))
            return [step for step in steps if step != 10]

        for step in (10, 20, 30):
            store.commit(*stage(rundir, step), release=release)
        assert store.list() == (10, 30)
        assert asked == [(), (10,), (10, 20)]
        commit(store, rundir, 40)
        assert store.list() == (40,)

    def test_the_best_stays_beside_the_newest(self, rundir: RunDirectory) -> None:
        store = open_store(rundir, keep=1)
        store.fence.acquire(1)
        for step, best in ((10, None), (20, 10), (30, 10), (40, 30), (50, 30)):
            store.commit(*stage(rundir, step), best=best)
        assert store.list() == (30, 50)
        found = store.at(30)
        assert found is not None
        assert found[1] == rundir.checkpoint(30)
        assert store.at(40) is None

    def test_the_one_just_committed_is_never_pruned(self, rundir: RunDirectory) -> None:
        store = open_store(rundir, keep=1)
        store.fence.acquire(1)
        commit(store, rundir, 30, 20)
        assert store.list() == (20, 30)

    def test_keeping_none_is_refused(self, rundir: RunDirectory) -> None:
        with pytest.raises(ValueError, match="keep = 0"):
            open_store(rundir, keep=0)

    def test_a_failure_to_prune_is_reported_and_does_not_lose_the_commit(self, rundir: RunDirectory) -> None:
        reports: list[tuple[str, str]] = []
        store = CheckpointStore(UndeletingStorage(), rundir, 1, on_not_pruned=lambda *report: reports.append(report))
        store.fence.acquire(1)
        commit(store, rundir, 10, 20)
        found = store.latest()
        assert found is not None
        assert found[0].step == 20
        (report,) = reports
        assert report[0] == rundir.checkpoints
        assert "read-only" in report[1]

    def test_a_whole_checkpoint_in_its_place_is_refused(self, rundir: RunDirectory) -> None:
        store = open_store(rundir)
        store.fence.acquire(1)
        commit(store, rundir, 10)
        with pytest.raises(StorageExistsError, match=rundir.checkpoint(10)):
            commit(store, rundir, 10)
        found = store.latest()
        assert found is not None
        assert found[0].step == 10
        assert names(rundir.staging) == []

    def test_a_torn_checkpoint_in_its_place_is_reported_and_replaced(self, rundir: RunDirectory) -> None:
        torn: list[str] = []
        store = CheckpointStore(LocalStorage(), rundir, 3, on_torn=lambda path, reason: torn.append(path))
        store.fence.acquire(1)
        commit(store, rundir, 10)
        os.truncate(f"{rundir.checkpoint(10)}/index", 1)
        commit(store, rundir, 10)
        assert store.latest() is not None
        assert torn == [rundir.checkpoint(10)]

    def test_a_commit_without_a_fence_is_refused(self, rundir: RunDirectory) -> None:
        with pytest.raises(LifecycleError, match="without a fence"):
            commit(open_store(rundir), rundir, 10)

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (os.remove, "a file is missing: .*/worker-1/weights"),
            (lambda file: os.truncate(file, 3), "/worker-1/weights: 3 bytes instead of"),
            (
                lambda file: Path(file).write_bytes(b"?" * os.path.getsize(file)),
                "/worker-1/weights: the checksum differs",
            ),
        ],
        ids=["missing", "truncated", "changed"],
    )
    def test_a_staged_file_that_differs_is_named(
        self, rundir: RunDirectory, damage: Callable[[str], None], reason: str
    ) -> None:
        store = open_store(rundir)
        store.fence.acquire(1)
        commit(store, rundir, 10)
        manifest, staged = stage(rundir, 20)
        damage(f"{staged}/worker-1/weights")
        with pytest.raises(TornCheckpointError, match=reason):
            store.commit(manifest, staged)
        assert store.list() == (10,)
        assert names(rundir.staging) == []

    def test_nothing_staged_at_all_is_torn(self, rundir: RunDirectory) -> None:
        store = open_store(rundir)
        store.fence.acquire(1)
        manifest, staged = stage(rundir, 20)
        shutil.rmtree(staged)
        with pytest.raises(TornCheckpointError, match=r"a file is missing: .*/index"):
            store.commit(manifest, staged)
        assert store.list() == ()

    def test_release_leaves_checkpoints_only(self, rundir: RunDirectory) -> None:
        store = open_store(rundir)
        store.fence.release()
        store.fence.acquire(1)
        commit(store, rundir, 10)
        stage(rundir, 20)
        store.fence.release()
        assert names(rundir.checkpoints) == [checkpoint_name(10)]
        assert names(rundir.path) == ["checkpoints"]


class TestPublish:
    def test_a_model_appears_whole_with_its_manifest(self, rundir: RunDirectory) -> None:
        store = open_store(rundir)
        store.fence.acquire(1)
        manifest, staged = stage(rundir, 1)
        store.commit_model(manifest.files, staged, f"{rundir.model}/deep")
        found = read_manifest(LocalStorage(), f"{rundir.model}/deep", FileManifest)
        assert found.files == manifest.files

    def test_a_model_takes_the_place_of_one_that_an_earlier_submission_left(self, rundir: RunDirectory) -> None:
        store = open_store(rundir)
        store.fence.acquire(1)
        for step in (1, 2):
            manifest, staged = stage(rundir, step)
            store.commit_model(manifest.files, staged, rundir.model)
        assert (Path(rundir.model) / "index").read_bytes().startswith(b"index at 2")
        store.fence.release()
        assert names(rundir.path) == ["checkpoints", "model"]

    def test_which_stays_until_the_new_one_is_whole(self, rundir: RunDirectory) -> None:
        store = open_store(rundir)
        store.fence.acquire(1)
        manifest, staged = stage(rundir, 1)
        store.commit_model(manifest.files, staged, rundir.model)
        manifest, staged = stage(rundir, 2)
        os.truncate(f"{staged}/index", 1)
        with pytest.raises(TornCheckpointError):
            store.commit_model(manifest.files, staged, rundir.model)
        assert (Path(rundir.model) / "index").read_bytes().startswith(b"index at 1")


class TestTorn:
    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (lambda folder: os.truncate(folder / "index", 5), "index: 5 bytes instead of"),
            (lambda folder: (folder / "worker-0/weights").unlink(), "a file is missing: .*worker-0/weights"),
            (lambda folder: shutil.rmtree(folder / "worker-0"), "a file is missing: .*worker-0/weights"),
            (lambda folder: (folder / MANIFEST).unlink(), "no manifest"),
            (lambda folder: (folder / MANIFEST).write_bytes(b"\xff\x00 garbage"), "is not a manifest: content: "),
            (
                lambda folder: (folder / MANIFEST).write_bytes(b'{"step": 20}'),
                "is not a manifest: files: Field required",
            ),
            (lambda folder: os.truncate(folder / MANIFEST, 100), "is not a manifest: content: Invalid JSON"),
            (lambda folder: shutil.copy(folder.parent / checkpoint_name(10) / MANIFEST, folder), "of another folder"),
        ],
        ids=["truncated", "missing", "folder missing", "none", "garbage", "wrong keys", "cut", "wrong step"],
    )
    def test_a_torn_checkpoint_is_skipped_with_its_reason(
        self, rundir: RunDirectory, damage: Callable[[Path], None], reason: str
    ) -> None:
        torn: list[tuple[str, str]] = []
        store = CheckpointStore(LocalStorage(), rundir, 3, on_torn=lambda *report: torn.append(report))
        store.fence.acquire(1)
        commit(store, rundir, 10, 20)
        damage(Path(rundir.checkpoint(20)))
        found = store.latest()
        assert found is not None
        assert found[0].step == 10
        ((path, said),) = torn
        assert path == rundir.checkpoint(20)
        with pytest.raises(TornCheckpointError, match=reason):
            raise TornCheckpointError(said)

    def test_what_is_no_checkpoint_is_not_looked_at(self, rundir: RunDirectory) -> None:
        for name in ("step-1", "notes", "_tmp", "step-000000000010.old"):
            os.makedirs(f"{rundir.checkpoints}/{name}")
        Path(rundir.checkpoint(5)).touch()
        assert open_store(rundir).list() == ()

    def test_a_storage_that_fails_does_not_make_a_checkpoint_torn(self, rundir: RunDirectory) -> None:
        class FailingStorage(LocalStorage):
            def checksum(self, path: str) -> str:
                raise StorageError(f"cannot read {path}: away")

        store = open_store(rundir)
        store.fence.acquire(1)
        commit(store, rundir, 10)
        with pytest.raises(StorageError, match="away"):
            open_store(rundir, FailingStorage()).latest()

    def test_a_checkpoint_pruned_while_it_is_read_is_not_torn(self, rundir: RunDirectory) -> None:
        writer = open_store(rundir, keep=1)
        writer.fence.acquire(1)
        commit(writer, rundir, 10)

        class OvertakenStorage(LocalStorage):
            def read_bytes(self, path: str) -> bytes:
                if path.startswith(rundir.checkpoint(10)):
                    commit(writer, rundir, 20)
                return super().read_bytes(path)

        torn: list[str] = []
        store = CheckpointStore(OvertakenStorage(), rundir, 1, on_torn=lambda path, reason: torn.append(path))
        found = store.latest()
        assert found is not None
        assert (found[0].step, torn) == (20, [])


class TestFence:
    def test_a_fenced_committer_cannot_commit_what_it_staged(self, rundir: RunDirectory) -> None:
        old, new = open_store(rundir), open_store(rundir)
        old.fence.acquire(1)
        staged = stage(rundir, 10)
        new.fence.acquire(2)
        with pytest.raises(FencedOffError, match="belongs to another submission now"):
            old.commit(*staged)
        assert new.list() == ()
        assert names(rundir.staging) == []

    def test_nor_what_its_trainers_upload_after_the_fence(self, rundir: RunDirectory) -> None:
        old, new = open_store(rundir), open_store(rundir)
        old.fence.acquire(1)
        new.fence.acquire(2)
        with pytest.raises(FencedOffError, match="belongs to another submission now"):
            old.commit(*stage(rundir, 10))
        manifest, staged = stage(rundir, 10)
        with pytest.raises(FencedOffError, match="belongs to another submission now"):
            old.commit_model(manifest.files, staged, rundir.model)
        assert not os.path.exists(rundir.model)
        commit(new, rundir, 10, attempt=2)
        assert new.list() == (10,)

    @pytest.mark.parametrize("before", ["/_commit-", "/step-"], ids=["the fence", "the commit"])
    def test_nor_when_the_fence_comes_just_before_its_rename(self, rundir: RunDirectory, before: str) -> None:
        new = open_store(rundir)
        old = open_store(rundir, InterruptedStorage(before, lambda: new.fence.acquire(2)))
        old.fence.acquire(1)
        with pytest.raises(FencedOffError, match="belongs to another submission now"):
            commit(old, rundir, 10)
        commit(new, rundir, 10, attempt=2)
        assert new.list() == (10,)

    def test_of_two_that_fence_at_once_at_most_one_commits(self, rundir: RunDirectory) -> None:
        second = open_store(rundir)
        open_store(rundir).fence.acquire(1)  # something to sweep, so that the first comes to a rename
        first = open_store(rundir, InterruptedStorage("/swept-", lambda: second.fence.acquire(3)))
        with pytest.raises(FencedOffError, match="belongs to another submission now"):
            first.fence.acquire(2)
        commit(second, rundir, 10, attempt=3)

    def test_a_fence_sweeps_what_older_attempts_left(self, rundir: RunDirectory) -> None:
        old = open_store(rundir)
        old.fence.acquire(1)
        commit(old, rundir, 10)
        stage(rundir, 20)
        new = open_store(rundir)
        new.fence.acquire(2)
        assert names(rundir.checkpoints) == [checkpoint_name(10)]
        assert [name.rpartition("-")[0] for name in names(rundir.path)] == ["_commit-002-0", ""]

    def test_attempts_count_on_from_those_of_a_killed_driver(self, rundir: RunDirectory) -> None:
        assert open_store(rundir).fence.last_attempt() == 0
        open_store(rundir).fence.acquire(7)
        store = open_store(rundir)
        assert store.fence.last_attempt() == 7
        store.fence.acquire(8)
        store.fence.release()
        assert store.fence.last_attempt() == 0


class TestManifest:
    @pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", MANIFEST])
    def test_a_file_outside_the_folder_is_refused(self, name: str) -> None:
        with pytest.raises(ValidationError, match="is not the name of a file below the folder"):
            FileManifest(files=(StagedFile(name=name, nbytes=0, sha256=""),))

    def test_it_is_json_that_a_person_can_read(self, rundir: RunDirectory) -> None:
        store = open_store(rundir)
        store.fence.acquire(1)
        commit(store, rundir, 10)
        manifest = json.loads(Path(f"{rundir.checkpoint(10)}/{MANIFEST}").read_text())
        assert manifest["cursor"] == {"epoch": 2, "done": [[0, 100]]}
        assert manifest["files"][0]["name"] == "index"

    def test_uploading_a_folder_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(StorageNotFoundError, match=f"cannot upload {tmp_path}/missing: not a folder"):
            upload_folder(LocalStorage(), tmp_path / "missing", f"{tmp_path}/target")


def test_killed_before_any_change_the_last_commit_is_whole_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    """Dies before the first change that a fence, commit and prune make, then before the second, and so on."""
    for changes in range(100):
        rundir = RunDirectory(f"{tmp_path}/{changes}/runs", "digits", "r1")
        first = open_store(rundir, keep=2)
        first.fence.acquire(1)
        commit(first, rundir, 10, 20)
        dying = open_store(rundir, DyingStorage(changes), keep=2)
        try:
            dying.fence.acquire(2)
            commit(dying, rundir, 30, attempt=2)
            break
        except Killed:
            found = open_store(rundir).latest()
            assert found is not None
            assert found[0].step in (20, 30)
        heir = open_store(rundir, keep=2)
        heir.fence.acquire(3)
        commit(heir, rundir, 40, attempt=3)
        assert heir.list() == (found[0].step, 40)
        heir.fence.release()
        assert names(rundir.checkpoints) == [checkpoint_name(found[0].step), checkpoint_name(40)]
    assert changes > 8


def commit_slowly(rundir: RunDirectory, driver: Connection) -> None:
    store = open_store(rundir, SlowStorage(driver))
    store.fence.acquire(2)
    commit(store, rundir, 20, attempt=2)


def test_a_committer_killed_with_9_between_its_renames_leaves_the_last_commit_whole(rundir: RunDirectory) -> None:
    first = open_store(rundir)
    first.fence.acquire(1)
    commit(first, rundir, 10)
    ours, theirs = PROCESSES.Pipe()
    committer = PROCESSES.Process(target=commit_slowly, args=(rundir, theirs), daemon=True)
    committer.start()
    theirs.close()  # so that its death ends our wait
    assert ours.poll(60)
    while ours.recv() != rundir.checkpoint(20):
        ours.send("go on")
        assert ours.poll(60)
    committer.kill()
    committer.join()
    assert committer.exitcode == -9
    heir = open_store(rundir)
    found = heir.latest()
    assert found is not None
    assert found[0].step == 10
    heir.fence.acquire(heir.fence.last_attempt() + 1)
    commit(heir, rundir, 20, attempt=3)
    assert heir.list() == (10, 20)


def read_all_the_time(rundir: RunDirectory, writer: Connection, stop: Event) -> None:
    """Verifies every checkpoint that is listed, over and over; sends (newest step, what was wrong) after each round."""
    store = open_store(rundir)
    while not stop.is_set():
        wrong = []
        steps = store.list()
        for step in steps:
            folder = rundir.checkpoint(step)
            try:
                read_manifest(LocalStorage(), folder, Manifest)
            except TornCheckpointError as error:
                # A folder that is gone by now was pruned, in one step, while it was read.
                if os.path.exists(folder):
                    wrong.append(str(error))
        writer.send((max(steps, default=0), wrong))
    writer.send(None)


def test_a_reader_never_sees_half_a_checkpoint(rundir: RunDirectory) -> None:
    ours, theirs = PROCESSES.Pipe()
    stop = PROCESSES.Event()
    reader = PROCESSES.Process(target=read_all_the_time, args=(rundir, theirs, stop), daemon=True)
    reader.start()
    theirs.close()  # so that its death ends our wait
    store = open_store(rundir, keep=2)
    store.fence.acquire(1)
    rounds = [ours.recv()]
    for step in range(1, 31):
        commit(store, rundir, step)
        # The reader keeps up, more or less: it and the writer are at work at the same time from the first to the last.
        while step % 5 == 0 and rounds[-1][0] < step:
            rounds.append(ours.recv())
    stop.set()
    while (last := ours.recv()) is not None:
        rounds.append(last)
    reader.join()
    assert [wrong for _, wrong in rounds if wrong] == []
    assert len({newest for newest, _ in rounds}) > 5
    assert store.list() == (29, 30)


class FullStorage(LocalStorage):
    """Has little room left."""

    def free_nbytes(self, path: str) -> int:
        return 5_000_000


@pytest.mark.parametrize(("storage", "warned"), [(FullStorage(), True), (LocalStorage(), False)])
def test_too_little_room_for_the_checkpoints_is_warned_of(tmp_path: Path, storage: Storage, warned: bool) -> None:
    write_lake(tmp_path / "lake", [10])
    said: list[str] = []
    rundir = RunDirectory(str(tmp_path), "job", "r")
    config, plan = lake_config(tmp_path / "lake"), plan_lake(tmp_path / "lake")
    Committer(config, storage, rundir, plan, said.append, clock=SystemClock()).check_room(250_000)
    assert (
        said
        == [
            f"{tmp_path} has room for 5.0 MB, but 4 checkpoints of this model may take 12.0 MB: "
            "free some space, or lower checkpoint.keep: 3"
        ]
        * warned
    )
