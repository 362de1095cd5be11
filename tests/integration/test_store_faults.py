"""Folders with names in real servers of stores whose requests fail, are not answered, are done twice or come late."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from object_stores import StoreServer
from store_faults import FAULTS, BrokenAnswers, FaultyDoor, LostEnds

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.objects.object_storage import ObjectStorage
from sparktf.storage.transactions.head import Edition, FolderHead, HeadMovedError

FILES, MOVERS = 8, 3


def systems(properties: dict[str, str]) -> FileSystems:
    return FileSystems(HadoopConf(properties=properties))


def moved_by(storage: Storage, root: str, who: int) -> dict[str, str]:
    """Moves as many files as it can into a folder of its own; returns what it was told of each."""
    told = {}
    storage.make_dirs(f"{root}/{who}")
    for number in range(FILES):
        try:
            storage.rename(f"{root}/files/{number}", f"{root}/{who}/{number}")
            told[str(number)] = "mine"
        except StorageNotFoundError:
            told[str(number)] = "another's"
        except StorageError:
            told[str(number)] = "unknown"
    return told


@pytest.mark.parametrize("seed", range(4))
def test_each_file_is_moved_once_and_who_is_told_so_has_it(server: StoreServer, seed: int) -> None:
    root, direct = f"{server.root}/moved-{seed}", systems(server.hadoop()).open_runs(f"{server.root}/x")
    direct.keep_names(root)
    for number in range(FILES):
        direct.write_bytes(f"{root}/files/{number}", str(number).encode())
    door = FaultyDoor(server.endpoint, seed, 0.25)
    try:
        behind = server.hadoop(door.endpoint)
        with ThreadPoolExecutor(MOVERS) as pool:
            asked = [pool.submit(moved_by, systems(behind).open_runs(root), root, who) for who in range(MOVERS)]
            told = [one.result() for one in asked]
    finally:
        door.close()
    there = [{entry.path.rpartition("/")[2] for entry in direct.list(f"{root}/{who}")} for who in range(MOVERS)]
    for name in (str(number) for number in range(FILES)):
        holders = [who for who in range(MOVERS) if name in there[who]]
        assert len(holders) == 1, f"{name} is held by {holders}"
        for who in range(MOVERS):
            said = told[who][name]
            assert said == "unknown" or (said == "mine") == (who in holders), f"{who} was told {said} of {name}"
        assert direct.read_bytes(f"{root}/{holders[0]}/{name}") == name.encode()
    assert direct.list(f"{root}/files") == ()
    assert sum(door.struck[fault] for fault in FAULTS) > 3


def test_of_all_that_swap_a_head_one_after_the_other_does(server: StoreServer) -> None:
    root, each = f"{server.root}/swapped", 4
    systems(server.hadoop()).open_runs(root).keep_names(root)
    door = FaultyDoor(server.endpoint, 1, 0.2)

    def add_one(who: int) -> int:
        head, done = FolderHead(systems(behind).open_runs(root), f"{root}/h", "content"), 0
        for turn in range(10 * each):
            if done == each:
                break
            with suppress(HeadMovedError, StorageError):
                read = head.read()
                count = int(read.content.partition(b" ")[0] or 0)
                head.swap(read, f"{count + 1} by {who}.{turn}".encode())
                done += 1
        return done

    try:
        behind = server.hadoop(door.endpoint)
        with ThreadPoolExecutor(MOVERS) as pool:
            assert list(pool.map(add_one, range(MOVERS))) == [each] * MOVERS
    finally:
        door.close()
    found: Edition = FolderHead(systems(server.hadoop()).open_runs(root), f"{root}/h", "content").read()
    assert found.content.startswith(f"{found.number} by ".encode())
    assert found.number >= MOVERS * each


def test_a_large_file_arrives_where_the_answer_to_the_last_request_of_its_upload_is_lost(
    server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparktf.storage.objects.object_storage._COPIED_NBYTES", 1 << 20)  # by S3 itself
    root, content = f"{server.root}/large", bytes(range(256)) * (80 << 10)
    direct = systems(server.hadoop()).open_runs(root)
    direct.keep_names(root)
    (tmp_path / "file").write_bytes(content)

    def behind(door: FaultyDoor) -> Storage:
        return systems(server.hadoop(door.endpoint)).open_runs(root)

    for put in (
        lambda door: behind(door).upload(tmp_path / "file", f"{root}/file"),
        lambda door: behind(door).copy(f"{root}/file", f"{root}/copy"),
    ):
        door = LostEnds(server.endpoint, 0, 0.0)
        try:
            put(door)
        finally:
            door.close()
        assert door.struck["answer-lost"] == 1
    assert direct.read_bytes(f"{root}/file") == direct.read_bytes(f"{root}/copy") == content


def test_an_answer_that_breaks_off_is_asked_for_again(server: StoreServer, tmp_path: Path) -> None:
    root, content = f"{server.root}/broken", bytes(range(256)) * (80 << 10)
    door = BrokenAnswers(server.endpoint, 0, 0.0)
    try:
        storage = systems(server.hadoop(door.endpoint)).open(root)
        assert isinstance(storage, ObjectStorage)
        (tmp_path / "file").write_bytes(content)
        storage.put_file(tmp_path / "file", f"{root}/file")
        storage.copy_object(f"{root}/file", f"{root}/copy")
        storage.write_bytes(f"{root}/small", b"small")
        for path in (f"{root}/file", f"{root}/copy"):
            assert storage.read_bytes(path) == content
        names = [f"{root}/{name}" for name in ("copy", "file", "small")]
        for entries in (storage.list(root), storage.walk(root), storage.below(root)):
            assert [entry.path for entry in entries] == names
        assert storage.stat(root).is_dir
        storage.delete_objects(names[:2])
        storage.delete(names[2])
        assert not storage.below(root)
    finally:
        door.close()
    assert door.struck["answer-breaks-off"] > 5


def test_what_was_committed_is_whole_whatever_late_uploads_bring(server: StoreServer, tmp_path: Path) -> None:
    root, storage = f"{server.root}/late", systems(server.hadoop()).open_runs(f"{server.root}/late")
    storage.keep_names(root)
    storage.make_dirs(f"{root}/checkpoints")
    storage.make_dirs(f"{root}/_commit-001-1-0badcafe")
    (tmp_path / "file").write_bytes(b"of the checkpoint")
    storage.upload(tmp_path / "file", f"{root}/checkpoints/_tmp/001-10/file")
    storage.rename(f"{root}/checkpoints/_tmp/001-10", f"{root}/_commit-001-1-0badcafe/step")
    late = systems(server.hadoop()).open_runs(root)
    (tmp_path / "late").write_bytes(b"late, or twice")
    late.upload(tmp_path / "late", f"{root}/checkpoints/_tmp/001-10/file")
    storage.rename(f"{root}/_commit-001-1-0badcafe/step", f"{root}/checkpoints/step")
    assert storage.read_bytes(f"{root}/checkpoints/step/file") == b"of the checkpoint"
    with pytest.raises(StorageExistsError):
        storage.rename(f"{root}/checkpoints/_tmp/001-10", f"{root}/checkpoints/step")
    assert [entry.path for entry in storage.list(f"{root}/checkpoints")] == [
        f"{root}/checkpoints/_tmp",
        f"{root}/checkpoints/step",
    ]
    storage.delete(f"{root}/checkpoints/_tmp")
    assert storage.read_bytes(f"{root}/checkpoints/step/file") == b"of the checkpoint"
