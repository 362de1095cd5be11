"""HDFS as a `Storage`: the contract of every storage, then a cluster in trouble."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from split import only
from storage_contract import StorageContract, names_below

from minihadoop import MiniHadoop
from minihadoop.config import MIB
from sparktf.errors import (
    StorageError,
    StorageNotFoundError,
    StoragePermissionError,
    StorageQuotaError,
    StorageUnavailableError,
)
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage, Timeouts
from sparktf.storage.credentials import SimpleCredentials
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.hdfs.hdfs_native import NativeClient

DATA = os.urandom(24 * MIB)
FAULTS = (MiniHadoop.kill, MiniHadoop.freeze)
HASTY = Timeouts(connect_s=2, io_s=3, deadline_s=40)


@pytest.fixture
def conf(hadoop: MiniHadoop) -> HadoopConf:
    return HadoopConf.from_folder(hadoop.conf_dir())


@pytest.fixture
def storage(conf: HadoopConf) -> Storage:
    return FileSystems(conf, timeouts=HASTY).open("/")


@pytest.fixture
def root(hadoop: MiniHadoop, conf: HadoopConf) -> Iterator[str]:
    hadoop.hdfs.make_folder("/test")
    yield f"{conf.default_fs}/test"
    hadoop.hdfs.delete("/test")


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A local file of 24 MiB: six blocks."""
    (tmp_path / "big").write_bytes(DATA)
    return tmp_path / "big"


@contextmanager
def beside(call: Callable[[], object]) -> Iterator[Future[object]]:
    """Runs a call on a thread, and waits for it in the end."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(call)


def being_written(hadoop: MiniHadoop, folder: str) -> str:
    """Waits until a file that is not complete has a block; returns the host that takes the data."""
    found: list[str] = []

    def missing() -> str:
        hidden = [f"{folder}/{name}" for name in hadoop.hdfs.names(folder) if name.startswith(".tmp-")]
        files = [f"{name}/{file}" for name in hidden for file in hadoop.hdfs.names(name)]
        blocks = [block for file in files for block in hadoop.hdfs.block_locations(file)]
        found[:] = [host for block in blocks for host in block.hosts]
        return "" if found else "no block yet"

    while missing():
        time.sleep(0.01)
    return found[0]


class Unbroken:
    """Tests that break nothing on the cluster: none waits until it is whole again."""

    @pytest.fixture
    def hadoop(self, shared_cluster: MiniHadoop) -> Iterator[MiniHadoop]:
        with shared_cluster.inside():
            yield shared_cluster


class TestContract(Unbroken, StorageContract):
    pass


class TestContractByWebHdfsAlone(Unbroken, StorageContract):
    @pytest.fixture
    def storage(self, conf: HadoopConf) -> Storage:
        return FileSystems(conf, timeouts=HASTY).open(f"webhdfs://{self.web(conf)}/")

    @pytest.fixture
    def root(self, hadoop: MiniHadoop, conf: HadoopConf) -> Iterator[str]:
        hadoop.hdfs.make_folder("/test-web")
        yield f"webhdfs://{self.web(conf)}/test-web"
        hadoop.hdfs.delete("/test-web")

    @staticmethod
    def web(conf: HadoopConf) -> str:
        return conf.properties["dfs.namenode.http-address"]


class TestRefusals(Unbroken):
    def test_another_users_file_is_named_with_its_cluster(
        self, conf: HadoopConf, root: str, hadoop: MiniHadoop
    ) -> None:
        hadoop.hdfs.make_folder("/test/mine", permission="700")
        alice = FileSystems(conf, SimpleCredentials("alice"), HASTY).open(root)
        named = re.escape(f"{root}/mine")
        for refused in (
            lambda: alice.write_bytes(f"{root}/mine/x", b""),
            lambda: alice.list(f"{root}/mine"),
            lambda: alice.open(f"{root}/mine/x"),
            lambda: alice.rename(f"{root}/mine", f"{root}/mine-too"),
            lambda: alice.probe(f"{root}/mine"),
        ):
            with pytest.raises(StoragePermissionError, match=f"cannot .*{named}.*: Permission denied: user=alice"):
                refused()

    def test_a_space_quota_that_is_hit_is_said_at_once(
        self, hadoop: MiniHadoop, storage: Storage, root: str, big: Path
    ) -> None:
        hadoop.hdfs.make_folder("/test/quota")
        storage.write_bytes(f"{root}/quota/small", b"1")
        hadoop.hdfs.set_quota("/test/quota", space_nbytes=20 * MIB)
        assert storage.free_nbytes(f"{root}/quota") == (20 * MIB - 2) // 2  # two replicas of what is there and will be
        before_s = time.monotonic()
        with pytest.raises(
            StorageQuotaError, match=f"cannot copy {big.name} to {root}/quota/big: .* quota of /test/quota is"
        ):
            storage.upload(big, f"{root}/quota/big")
        assert time.monotonic() - before_s < HASTY.deadline_s / 2
        assert names_below(storage, f"{root}/quota") == ["small"]

    def test_a_name_quota_is_a_quota(self, hadoop: MiniHadoop, storage: Storage, root: str) -> None:
        hadoop.hdfs.make_folder("/test/names")
        hadoop.hdfs.set_quota("/test/names", names=1)
        with pytest.raises(StorageQuotaError, match=f"cannot write {root}/names/x: The NameSpace quota"):
            storage.write_bytes(f"{root}/names/x", b"1")

    def test_a_cluster_that_is_not_there_is_named(self, hadoop: MiniHadoop) -> None:
        master = hadoop.config.master.fqdn
        for path, reason in (
            (f"webhdfs://{master}:1/x", "connection refused"),
            ("hdfs://nobody:8020/x", "unknown host"),
            ("webhdfs://10.255.255.1:9870/x", "no answer in time|the network is unreachable|no route to host"),
        ):
            away = FileSystems(timeouts=Timeouts(0.5, 0.5, 1)).open(path)
            with pytest.raises(
                StorageUnavailableError, match=rf"cannot access {path}: ({reason}).*after 1 s of trying"
            ):
                away.stat(path)


class TestReplacing(Unbroken):
    def test_a_reader_sees_the_old_file_or_the_new_and_never_none(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/x", b"0" * 100)
        seen: set[bytes] = set()
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                content = storage.read_bytes(f"{root}/x")
                assert len(set(content)) == 1
                assert len(content) == 100
                seen.add(content)

        with beside(read) as reading:
            for i in range(1, 10):
                storage.write_bytes(f"{root}/x", str(i).encode() * 100)
            stop.set()
            reading.result()
        assert len(seen) > 1

    def test_others_may_read_what_is_written(self, conf: HadoopConf, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/x", b"1")
        assert FileSystems(conf, SimpleCredentials("alice"), HASTY).open(root).read_bytes(f"{root}/x") == b"1"


class TestDataNodes:
    @pytest.mark.parametrize("fault", only(MiniHadoop.kill, of=FAULTS))
    def test_a_write_outlives_the_datanode_that_takes_it(
        self, hadoop: MiniHadoop, storage: Storage, root: str, big: Path, fault: Callable[[MiniHadoop, str, str], None]
    ) -> None:
        big.write_bytes(DATA * 8)
        before_s = time.monotonic()
        with beside(lambda: storage.upload(big, f"{root}/folder/big")) as writing:
            hadoop.hdfs.make_folder("/test/folder")
            fault(hadoop, "datanode", being_written(hadoop, "/test/folder"))
            writing.result()
        assert time.monotonic() - before_s < 60
        assert names_below(storage, f"{root}/folder") == ["big"]
        assert storage.read_bytes(f"{root}/folder/big") == DATA * 8

    @pytest.mark.parametrize(
        ("fault", "web"), only(*zip(FAULTS, (False, True), strict=True), of=[*itertools.product(FAULTS, (False, True))])
    )
    def test_a_read_outlives_the_datanode_that_it_reads_from(
        self,
        hadoop: MiniHadoop,
        conf: HadoopConf,
        root: str,
        web: bool,
        fault: Callable[[MiniHadoop, str, str], None],
    ) -> None:
        hadoop.hdfs.put("/test/big", DATA)
        path = f"{root}/big"
        if web:
            path = f"webhdfs://{conf.properties['dfs.namenode.http-address']}/test/big"
        before_s = time.monotonic()
        with FileSystems(conf, timeouts=HASTY).open(path).open(path) as stream:
            content = stream.read(MIB)
            for host in {block.hosts[0] for block in hadoop.hdfs.block_locations("/test/big")[:1]}:
                fault(hadoop, "datanode", host)
            while chunk := stream.read(MIB):
                content += chunk
        assert content == DATA
        assert time.monotonic() - before_s < HASTY.deadline_s

    def test_what_lies_on_a_frozen_datanode_alone_is_said_within_a_bound(
        self, hadoop: MiniHadoop, conf: HadoopConf, root: str
    ) -> None:
        hadoop.hdfs.put("/test/one", DATA[:MIB], replication=1)
        [[host]] = [block.hosts for block in hadoop.hdfs.block_locations("/test/one")]
        storage = FileSystems(conf, timeouts=Timeouts(1, 2, 4)).open(root)
        hadoop.freeze("datanode", host)
        before_s = time.monotonic()
        with (
            storage.open(f"{root}/one") as stream,
            pytest.raises(StorageUnavailableError, match=f"cannot read {root}/one"),
        ):
            stream.read()
        assert time.monotonic() - before_s < 15
        hadoop.thaw("datanode", host)
        assert storage.read_bytes(f"{root}/one") == DATA[:MIB]

    def test_small_writes_go_on_beside_a_frozen_datanode(self, hadoop: MiniHadoop, storage: Storage, root: str) -> None:
        hadoop.freeze("datanode", "host2")
        before_s = time.monotonic()
        for i in range(8):
            storage.write_bytes(f"{root}/{i}", DATA[:1000])
        assert time.monotonic() - before_s < 60
        assert [storage.read_bytes(f"{root}/{i}") for i in range(8)] == [DATA[:1000]] * 8
        assert names_below(storage, root) == [str(i) for i in range(8)]


class TestNameNode:
    def test_one_that_stays_away_is_said_at_the_deadline_and_a_restart_is_waited_out_by_whatever_is_under_way(
        self, hadoop: MiniHadoop, conf: HadoopConf, storage: Storage, root: str, big: Path
    ) -> None:
        storage.write_bytes(f"{root}/old", b"1")
        hadoop.kill("namenode")
        hasty = FileSystems(conf, timeouts=Timeouts(1, 1, 2)).open(root)
        with pytest.raises(StorageUnavailableError, match=f"cannot write {root}/x: connection refused .*2 s of trying"):
            hasty.write_bytes(f"{root}/x", b"")
        with (
            beside(lambda: storage.upload(big, f"{root}/new")) as writing,
            beside(lambda: storage.rename(f"{root}/old", f"{root}/renamed")) as renaming,
            beside(lambda: storage.read_bytes(f"{root}/old")) as reading,
        ):
            hadoop.start("namenode")
            writing.result()
            renaming.result()
            # It came before the rename or after it.
            assert reading.exception() is None or isinstance(reading.exception(), StorageNotFoundError)
        assert names_below(storage, root) == ["new", "renamed"]

    def test_safe_mode_is_said_and_waited_out(self, hadoop: MiniHadoop, conf: HadoopConf, root: str) -> None:
        systems = FileSystems(conf, timeouts=HASTY)
        storage, hasty = systems.open(root), systems.open(root, deadline_s=2)
        storage.write_bytes(f"{root}/x", b"1")
        hadoop.tool("dfsadmin", "-safemode", "enter")
        with pytest.raises(StorageUnavailableError, match=rf"cannot write {root}/y: .* in safe ?mode"):
            hasty.write_bytes(f"{root}/y", b"")
        with pytest.raises(StorageUnavailableError, match=rf"cannot rename {root}/x to {root}/y: .* in safe ?mode"):
            hasty.rename(f"{root}/x", f"{root}/y")
        assert storage.read_bytes(f"{root}/x") == b"1"
        with beside(lambda: storage.write_bytes(f"{root}/y", b"2")) as writing:
            hadoop.tool("dfsadmin", "-safemode", "leave")
            writing.result()
        assert names_below(storage, root) == ["x", "y"]


class TestNameService(Unbroken):
    """A name service whose first NameNode does not answer."""

    @pytest.fixture
    def conf(self, hadoop: MiniHadoop) -> HadoopConf:
        found = HadoopConf.from_folder(hadoop.conf_dir()).properties
        dead = hadoop.config.host("host1").fqdn
        return HadoopConf(
            properties={
                "fs.defaultFS": "hdfs://lake",
                "dfs.nameservices": "lake",
                "dfs.ha.namenodes.lake": "a,b",
                "dfs.namenode.rpc-address.lake.a": f"{dead}:8020",
                "dfs.namenode.http-address.lake.a": f"{dead}:9870",
                "dfs.namenode.rpc-address.lake.b": found["dfs.namenode.rpc-address"],
                "dfs.namenode.http-address.lake.b": found["dfs.namenode.http-address"],
                "dfs.client.failover.proxy.provider.lake": (
                    "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
                ),
            }
        )

    def test_the_active_one_is_found(self, storage: Storage, root: str, big: Path) -> None:
        storage.upload(big, f"{root}/x")
        storage.rename(f"{root}/x", f"{root}/y")
        assert storage.read_bytes("hdfs://lake/test/y") == DATA

    def test_hdfs_native_finds_it_too(self, hadoop: MiniHadoop, conf: HadoopConf, root: str) -> None:
        hadoop.hdfs.put("/test/x", b"1")
        opened = NativeClient("hdfs://lake", dict(conf.for_nodes().properties), SimpleCredentials(), 10).open("/test/x")
        assert opened is not None
        into = bytearray(1)
        assert opened.read_into(0, memoryview(into)) == 1
        assert into == b"1"


def test_reading_never_fails_otherwise_than_as_a_storage_error(storage: Storage, root: str, hadoop: MiniHadoop) -> None:
    hadoop.hdfs.put("/test/x", DATA[:MIB], replication=1)
    [[host]] = [block.hosts for block in hadoop.hdfs.block_locations("/test/x")]
    with storage.open(f"{root}/x") as stream:
        hadoop.hdfs.delete("/test/x")
        hadoop.kill("datanode", host)
        with pytest.raises(StorageError, match=f"cannot read {root}/x: File .*not found|File does not exist"):
            stream.read()
