"""Files in real servers of object stores."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from lakes import array, deal, id_table, lake_config, no_filter, write_file, write_lake
from object_stores import StoreServer
from store_faults import LateCopies

from sparktf.driver.plan.planner import plan_source
from sparktf.errors import (
    CorruptFileError,
    SourceNotFoundError,
    StorageError,
    StorageNotFoundError,
    StoragePermissionError,
    StorageUnavailableError,
)
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.example_writer import record_bytes
from sparktf.feed.pipeline import NodeFeed
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import RangedStream, Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.objects.object_storage import ObjectStorage
from sparktf.storage.store_keys import STORE_KEYS, FileKeys, GivenKeys, HandedKeys, key_file

OTHER_KEY = base64.b64encode(b"another key").decode()


def storage_of(server: StoreServer, **others: str) -> Storage:
    return FileSystems(HadoopConf(properties=server.hadoop(**others))).open(server.root, deadline_s=1)


def test_files_are_written_found_and_read(server: StoreServer, tmp_path: Path) -> None:
    storage, root = storage_of(server), f"{server.root}/x"
    names = ("50%25", "_SUCCESS", "a/b=1 2/c", "a/ä+&", "a/_hidden/y")
    for name in names:
        storage.write_bytes(f"{root}/{name}", name.encode())
    assert [storage.read_bytes(f"{root}/{name}").decode() for name in names] == list(names)
    listed = [(entry.path, entry.nbytes, entry.is_dir) for entry in storage.list(root)]
    assert listed == [(f"{root}/50%25", 5, False), (f"{root}/_SUCCESS", 8, False), (f"{root}/a", 0, True)]
    walked = [entry.path for entry in storage.walk(root)]
    assert walked == [f"{root}/50%25", f"{root}/a/b=1 2/c", f"{root}/a/ä+&"]
    (tmp_path / "big").write_bytes(bytes(range(256)) * 80_000)
    storage.upload(tmp_path / "big", f"{root}/big")
    storage.download(f"{root}/big", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "big").read_bytes()
    with storage.open(f"{root}/big") as stream:
        stream.seek(-257, 2)
        assert stream.read(2) == b"\xff\x00"
    storage.delete(f"{root}/a")
    assert not storage.exists(f"{root}/a") and storage.exists(f"{root}/big")


def test_a_file_that_is_replaced_while_it_is_read_is_named(server: StoreServer) -> None:
    storage, path = storage_of(server), f"{server.root}/replaced"
    storage.write_bytes(path, b"1" * (3 << 20))
    with storage.open(path) as stream:
        stream.read(1)
        storage.write_bytes(path, b"2" * (3 << 20))
        with pytest.raises(StorageError, match=rf"cannot read {path}: it was replaced while it was read"):
            stream.read()


def test_what_is_wrong_is_said_in_a_line(server: StoreServer) -> None:
    path, nowhere = f"{server.root}/wrong", server.root.replace("bucket", "nowhere")
    storage = storage_of(server)
    storage.write_bytes(path, b"1")
    with pytest.raises(StorageNotFoundError, match=rf"^cannot read {server.root}/none: there is no such object$"):
        storage.read_bytes(f"{server.root}/none")
    with pytest.raises(StorageError, match=rf"^cannot list {nowhere}/x: The specified \w+ does not exist"):
        FileSystems(HadoopConf(properties=server.hadoop())).open(nowhere).list(f"{nowhere}/x")
    with pytest.raises(StoragePermissionError, match=r"SignatureDoesNotMatch|AuthorizationFailure") as refused:
        hadoop, keys = HadoopConf(properties=server.hadoop()), GivenKeys({server.secret: OTHER_KEY})
        FileSystems(hadoop, keys=keys).open(path).read_bytes(path)
    assert OTHER_KEY not in str(refused.value)
    with pytest.raises(
        StorageUnavailableError, match=rf"^cannot read {path}: the store cannot be reached at http://127"
    ):
        storage_of(server, endpoint="http://127.0.0.1:1").read_bytes(path)


def test_a_copy_is_there_when_it_is_said_to_be(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sparktf.storage.objects.object_storage._COPIED_NBYTES", 19 << 20
    )  # by S3 itself, in one request
    root, door = f"{server.root}/copied", LateCopies(server.endpoint, 0, 0.0)
    try:
        storage = storage_of(server, endpoint=door.endpoint)
        assert isinstance(storage, ObjectStorage)
        for content in (b"", b"small", bytes(20 << 20)):
            storage.write_bytes(f"{root}/source", content)
            storage.copy_object(f"{root}/source", f"{root}/target")
            storage.delete(f"{root}/source")
            assert storage.read_bytes(f"{root}/target") == content
        with pytest.raises(StorageNotFoundError, match=rf"^cannot copy {root}/source.*: there is no such object"):
            storage.copy_object(f"{root}/source", f"{root}/x")
    finally:
        door.close()


def test_a_notebook_that_has_an_event_loop_of_its_own_copies_and_reads_ranges_too(server: StoreServer) -> None:
    storage = storage_of(server)
    assert isinstance(storage, ObjectStorage)
    source, target = (f"{server.root}/a notebook's/{name}" for name in ("source", "target"))
    storage.write_bytes(source, b"content")

    async def cell() -> bytes:
        storage.copy_object(source, target)
        with storage.open(target) as stream:
            raw = getattr(stream, "raw", stream)
            assert isinstance(raw, RangedStream)
            return b" ".join(raw.read_ranges([(0, 3), (3, 7)]))

    assert asyncio.run(cell()) == b"con tent"


def test_files_are_deleted_whatever_of_them_is_gone_already(server: StoreServer) -> None:
    storage, root = storage_of(server), f"{server.root}/deleted"
    assert isinstance(storage, ObjectStorage)
    names = [f"{root}/{number}" for number in range(258)]  # more than Azure takes at a time
    for name in (names[1], *names[-2:]):
        storage.write_bytes(name, b"")
    storage.delete_objects(names)
    assert not storage.exists(root)
    storage.write_bytes(f"{root}/a/b", b"")
    storage.delete(root)
    storage.delete(root)
    assert not storage.exists(root)


@pytest.mark.parametrize("form", ["parquet", "tfrecord"])
def test_a_table_is_read_by_the_plan_and_what_changed_since_is_named(
    server: StoreServer, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems, root = FileSystems(HadoopConf(properties=server.hadoop())), f"{server.root}/a table of {form}"
    storage = systems.open(root)

    def put(file: Path) -> None:
        if form == "tfrecord":
            content = b"".join(bytes(record_bytes(batch)) for batch in pq.read_table(file).to_batches())
            storage.write_bytes(f"{root}/{file.name}", content)
        else:
            storage.upload(file, f"{root}/{file.name}")

    for file in write_lake(tmp_path / "lake").iterdir():
        put(file)
    data = lake_config(shuffle_rows=40).data.model_copy(update={"path": root, "format": form})
    plan = plan_source(lake_config().model_copy(update={"data": data}), systems.open, no_filter)
    looked, look = Counter[str](), ObjectStorage._head

    def count(self: ObjectStorage, doing: str, path: str) -> Any:
        looked[path] += 1
        return look(self, doing, path)

    monkeypatch.setattr(ObjectStorage, "_head", count)

    def epoch(number: int) -> list[int]:
        (share,) = deal(plan, epoch=number)
        with NodeFeed(plan.spec, PlannedParts(plan.spec, share, systems.open)) as feed:
            return sorted(int(i) for i in array(feed.next_rows(1_000), "input:id"))

    assert epoch(0) == list(range(229))
    assert set(looked.values()) == {1}, "the readers of a node look at each file once between them"
    put(write_file(tmp_path / "part-01.parquet", id_table(1_000, 5)))
    with pytest.raises(CorruptFileError, match=rf"^{root}/part-01.parquet has changed since it was planned"):
        epoch(1)
    storage.delete(f"{root}/part-01.parquet")
    with pytest.raises(SourceNotFoundError, match=rf"^{root}/part-01.parquet was deleted after the plan was made"):
        epoch(1)


def test_secrets_that_are_renewed_are_used_from_the_next_request_on(server: StoreServer, tmp_path: Path) -> None:
    properties, path = server.hadoop(), f"{server.root}/renewed"
    secret = properties.pop(server.secret)
    handed = HandedKeys(tmp_path)
    handed.take(key_file({server.secret: OTHER_KEY}))
    systems = FileSystems(HadoopConf(properties=properties), keys=FileKeys([tmp_path / STORE_KEYS]))
    storage = systems.open(path)
    with pytest.raises(StoragePermissionError):
        storage.read_bytes(path)
    handed.take(key_file({server.secret: secret}))
    storage.write_bytes(path, b"1")
    assert storage.read_bytes(path) == b"1"
