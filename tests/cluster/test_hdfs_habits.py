"""What vendors' clusters have that a plain one has not: encryption zones, erasure coding, a umask of their own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minihadoop import ClusterConfig, MiniHadoop, down, up
from minihadoop.config import MIB
from minihadoop.daemons import TOOLS, java_command
from minihadoop.environment import java_home
from minihadoop.jars import resolve
from minihadoop.tls import NAMENODE_HTTPS_PORT
from minihadoop.web import get_json, request
from sparktf.errors import ConfigError, StorageError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage, Timeouts
from sparktf.storage.credentials import SimpleCredentials
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.hdfs.hdfs_native import NativeClient

DATA = os.urandom(9 * MIB + 123)
# The defaults: a DataNode of a busy machine takes more than 3 s to encrypt what it is sent, at every try.
PATIENT = Timeouts()
POLICY = "XOR-2-1-1024k"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHadoop]:
    """One with a key `lake`, which the NameNode wants to know from its start on."""
    folder = tmp_path_factory.mktemp("keys")
    keys = f"jceks://file{folder}/keys.jceks"
    create = ["create", "lake", "-size", "128", "-provider", keys]
    command = java_command(java_home(), resolve(print), folder, TOOLS["key"], create)
    subprocess.run(command, check=True, capture_output=True)
    settings = (("hadoop.security.key.provider.path", keys), ("fs.permissions.umask-mode", "007"))
    name = f"test-{os.getpid()}-habits"
    config = ClusterConfig(name, hosts=3, replication=1, yarn=False, settings=settings, https=True)
    try:
        yield up(config, print)
    finally:
        down(config.name, print)


@pytest.fixture
def hadoop(cluster: MiniHadoop) -> Iterator[MiniHadoop]:
    with cluster.inside():
        yield cluster


@pytest.fixture
def conf(hadoop: MiniHadoop) -> HadoopConf:
    return HadoopConf.from_folder(hadoop.conf_dir())


@pytest.fixture
def storage(conf: HadoopConf) -> Storage:
    return FileSystems(conf, timeouts=PATIENT).open("/")


def status(hadoop: MiniHadoop, path: str) -> dict[str, Any]:
    """Returns what the NameNode says of a path."""
    said: dict[str, Any] = get_json(f"{hadoop.hdfs.url}/webhdfs/v1{path}?op=GETFILESTATUS&user.name=root")
    return dict(said["FileStatus"])


def test_files_of_an_encryption_zone_are_read_and_written_in_clear_and_never_as_they_lie_on_disk(
    hadoop: MiniHadoop, conf: HadoopConf, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf_dir()))  # where hdfs-native would look for keys by itself
    hadoop.hdfs.make_folder("/zone")
    hadoop.tool("crypto", "-createZone", "-keyName", "lake", "-path", "/zone")
    hadoop.hdfs.put("/zone/theirs", DATA)
    storage.write_bytes("/zone/ours", DATA)
    for path in ("/zone/theirs", "/zone/ours"):
        assert status(hadoop, path)["encBit"]
        assert storage.read_bytes(path) == DATA
        assert hadoop.hdfs.get(f"/.reserved/raw{path}") != DATA
        with pytest.raises(ConfigError, match=f"/.reserved/raw{path}: .*encrypted.*: write {path}"):
            FileSystems(conf).open(f"/.reserved/raw{path}")
    # Its refusals are no failures: what is not encrypted is still read by hdfs-native.
    native = NativeClient(conf.default_fs, dict(conf.for_nodes().properties), SimpleCredentials(), PATIENT.io_s)
    storage.write_bytes("/plain", DATA)
    assert native.open("/zone/ours") is None
    assert native.open("/plain") is not None


def test_https_is_spoken_with_servers_that_the_clusters_truststore_has_and_with_no_others(
    hadoop: MiniHadoop, conf: HadoopConf, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = hadoop.config.master.fqdn
    by_web = f"swebhdfs://{master}:{NAMENODE_HTTPS_PORT}/https"
    trusting = FileSystems(conf, timeouts=PATIENT)  # clients are told HTTPS_ONLY
    trusting.open("/https").write_bytes("/https/x", DATA)
    assert trusting.open(by_web).read_bytes(f"{by_web}/x") == DATA  # through a DataNode, to which it is redirected
    strangers = HadoopConf(properties={k: v for k, v in conf.properties.items() if not k.startswith("ssl.")})
    stranger = FileSystems(strangers, timeouts=PATIENT)
    before_s = time.monotonic()
    with pytest.raises(StorageError, match=f"{by_web}/x: {master}: its certificate is not trusted: .*SSL_CERT_FILE"):
        stranger.open(by_web).read_bytes(f"{by_web}/x")
    assert time.monotonic() - before_s < PATIENT.deadline_s / 2  # at once
    monkeypatch.setenv("SSL_CERT_FILE", str(hadoop.folder.certificate))
    knowing = FileSystems(strangers, timeouts=PATIENT)
    assert knowing.open(by_web).read_bytes(f"{by_web}/x") == DATA
    at_address = f"swebhdfs://{hadoop.config.master.address}:{NAMENODE_HTTPS_PORT}/https/x"
    with pytest.raises(
        StorageError, match=r"its certificate is not trusted: IP address mismatch.*: name the server as"
    ):
        knowing.open(at_address).read_bytes(at_address)


def test_new_files_and_folders_have_the_permissions_that_hadoops_own_clients_give(
    hadoop: MiniHadoop, storage: Storage, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"1")
    hadoop.tool("fs", "-mkdir", "-p", "/theirs/a")
    hadoop.tool("fs", "-put", str(tmp_path / "x"), "/theirs/a/x")
    storage.write_bytes("/ours/a/x", b"1")
    for below, permission in (("", "770"), ("/a", "770"), ("/a/x", "660")):
        assert status(hadoop, f"/theirs{below}")["permission"] == permission
        assert status(hadoop, f"/ours{below}")["permission"] == permission


def test_a_path_of_viewfs_is_the_one_that_hadoops_own_client_finds(
    hadoop: MiniHadoop, conf: HadoopConf, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"through a mount point")
    mounts = {"fs.defaultFS": "viewfs://all", "fs.viewfs.mounttable.all.link./lake": f"{conf.default_fs}/mounted/here"}
    hadoop.hdfs.make_folder("/mounted/here")
    asked = [word for key, value in mounts.items() for word in ("-D", f"{key}={value}")]
    hadoop.tool("fs", *asked, "-put", str(tmp_path / "x"), "/lake/x")
    systems = FileSystems(HadoopConf(properties={**conf.properties, **mounts}), timeouts=PATIENT)
    for path in ("/lake/x", "viewfs://all/lake/x", f"{conf.default_fs}/mounted/here/x"):
        assert systems.open(path).read_bytes(path) == b"through a mount point"
    assert hadoop.hdfs.get("/mounted/here/x") == b"through a mount point"


def test_an_erasure_coded_file_is_read_whole_also_without_one_of_its_datanodes(
    hadoop: MiniHadoop, storage: Storage
) -> None:
    hadoop.hdfs.make_folder("/coded")
    for operation, path in (("ENABLEECPOLICY", "/"), ("SETECPOLICY", "/coded")):
        request("PUT", f"{hadoop.hdfs.url}/webhdfs/v1{path}?op={operation}&ecpolicy={POLICY}&user.name=root")
    storage.write_bytes("/coded/x", DATA)
    assert status(hadoop, "/coded/x")["ecPolicy"] == POLICY
    assert storage.read_bytes("/coded/x") == DATA
    hadoop.kill("datanode", "host1")
    assert storage.read_bytes("/coded/x") == DATA
