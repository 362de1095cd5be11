"""Files in a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lakes import array, deal, id_table, lake_config, no_filter, write_file, write_lake
from object_stores import S3Server, s3_server

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
from sparktf.feed.pipeline import NodeFeed
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.store_keys import STORE_KEYS, FileKeys, HandedKeys, key_file


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def storage_of(server: S3Server, **changed: str) -> Storage:
    properties = server.hadoop() | {f"fs.s3a.{key.replace('_', '.')}": value for key, value in changed.items()}
    return FileSystems(HadoopConf(properties=properties)).open("s3a://bucket/x", deadline_s=1)


def test_files_are_written_found_and_read(server: S3Server, tmp_path: Path) -> None:
    storage, root = storage_of(server), "s3a://bucket/x"
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


def test_a_file_that_is_replaced_while_it_is_read_is_named(server: S3Server) -> None:
    storage, path = storage_of(server), "s3a://bucket/replaced"
    storage.write_bytes(path, b"1" * (3 << 20))
    with storage.open(path) as stream:
        stream.read(1)
        storage.write_bytes(path, b"2" * (3 << 20))
        with pytest.raises(StorageError, match=rf"cannot read {path}: it was replaced while it was read"):
            stream.read()


def test_what_is_wrong_is_said_in_a_line(server: S3Server) -> None:
    storage_of(server).write_bytes("s3a://bucket/x", b"1")
    with pytest.raises(StorageNotFoundError, match=r"^cannot read s3a://bucket/none: there is no such object$"):
        storage_of(server).read_bytes("s3a://bucket/none")
    with pytest.raises(StorageError, match=r"^cannot list s3a://nowhere/x: The specified bucket does not exist"):
        FileSystems(HadoopConf(properties=server.hadoop())).open("s3a://nowhere").list("s3a://nowhere/x")
    with pytest.raises(StoragePermissionError, match="SignatureDoesNotMatch") as refused:
        storage_of(server, secret_key="wrong-key").read_bytes("s3a://bucket/x")
    assert "wrong-key" not in str(refused.value)
    with pytest.raises(
        StorageUnavailableError, match=r"^cannot read s3a://bucket/x: the store cannot be reached at http://127"
    ):
        storage_of(server, endpoint="http://127.0.0.1:1").read_bytes("s3a://bucket/x")


def test_a_table_is_read_by_the_plan_and_what_changed_since_is_named(server: S3Server, tmp_path: Path) -> None:
    systems, root = FileSystems(HadoopConf(properties=server.hadoop())), "s3a://bucket/a table"
    storage = systems.open(root)
    for file in write_lake(tmp_path / "lake").iterdir():
        storage.upload(file, f"{root}/{file.name}")
    config = lake_config().model_copy(
        update={"data": lake_config(shuffle_rows=40).data.model_copy(update={"path": root})}
    )
    plan = plan_source(config, systems.open, no_filter)

    def epoch(number: int) -> list[int]:
        (share,) = deal(plan, epoch=number)
        with NodeFeed(plan.spec, PlannedParts(plan.spec, share, systems.open)) as feed:
            return sorted(int(i) for i in array(feed.next_rows(1_000), "input:id"))

    assert epoch(0) == list(range(229))
    storage.upload(write_file(tmp_path / "new", id_table(1_000, 5)), f"{root}/part-01.parquet")
    with pytest.raises(CorruptFileError, match=rf"^{root}/part-01.parquet has changed since it was planned"):
        epoch(1)
    storage.delete(f"{root}/part-01.parquet")
    with pytest.raises(SourceNotFoundError, match=rf"^{root}/part-01.parquet was deleted after the plan was made"):
        epoch(1)


def test_secrets_that_are_renewed_are_used_from_the_next_request_on(server: S3Server, tmp_path: Path) -> None:
    properties = server.hadoop()
    secret = properties.pop("fs.s3a.secret.key")
    handed = HandedKeys(tmp_path)
    handed.take(key_file({"fs.s3a.secret.key": "an old one"}))
    systems = FileSystems(HadoopConf(properties=properties), keys=FileKeys([tmp_path / STORE_KEYS]))
    storage = systems.open("s3a://bucket/x")
    with pytest.raises(StoragePermissionError):
        storage.read_bytes("s3a://bucket/x")
    handed.take(key_file({"fs.s3a.secret.key": secret}))
    storage.write_bytes("s3a://bucket/x", b"1")
    assert storage.read_bytes("s3a://bucket/x") == b"1"
