"""The mini cluster's description, configuration files and process records, without a cluster."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from minihadoop import ClusterConfig, RefusedError, State
from minihadoop.config import HADOOPS
from minihadoop.daemons import daemons_of, find_daemon
from minihadoop.hadoop_conf import write_conf
from minihadoop.jars import distribution
from minihadoop.layout import ClusterFolder
from minihadoop.processes import Process, owned, read_record
from sparktf.hadoop import HadoopConf, NameNode


def properties(path: Path) -> dict[str, str]:
    found = ET.parse(path).getroot()
    return {entry.findtext("name", ""): entry.findtext("value", "") for entry in found}


@pytest.mark.parametrize("name", ["", "Upper", "9lives", "a.b", "../x", "end-", "x" * 32])
def test_a_name_that_is_no_label_of_a_domain_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="lower-case letters"):
        ClusterConfig(name)


def test_a_configuration_survives_its_file() -> None:
    config = ClusterConfig("mine", hosts=2, settings=(("dfs.blocksize", "1"), ("a", "b")), user_namespace=True)
    assert ClusterConfig.from_json(config.to_json()) == config


def test_another_hadoop_has_a_folder_of_its_own_and_an_unknown_one_is_refused() -> None:
    assert {distribution().path, *(distribution(version).path for version in HADOOPS)} == {
        distribution(version).path for version in HADOOPS
    }
    with pytest.raises(RefusedError, match=r"^hadoop 2\.7\.0: 3\.3\.6, 3\.4\.2, 3\.5\.0$"):
        ClusterConfig(hadoop="2.7.0")


def test_hosts_have_names_and_addresses_of_their_own() -> None:
    config = ClusterConfig("mine", hosts=200)
    assert len({host.address for host in config.all_hosts}) == 202
    assert config.host("host7") == config.host("host7.mine.test")
    assert "10.77.0.12 host2.mine.test host2" in config.hosts_file().splitlines()


def test_a_daemon_is_named_by_kind_and_where_need_be_host() -> None:
    config = ClusterConfig(hosts=2)
    assert [daemon.name for daemon in daemons_of(config)] == [
        *("resourcemanager@master", "namenode@master"),
        *("datanode@host1", "nodemanager@host1", "datanode@host2", "nodemanager@host2"),
    ]
    only_hdfs = daemons_of(ClusterConfig(hosts=2, yarn=False))
    assert [daemon.name for daemon in only_hdfs] == ["namenode@master", "datanode@host1", "datanode@host2"]
    assert find_daemon(config, "namenode", None).host == config.master
    for kind, host in [("datanode", None), ("datanode", "master"), ("datanote", "host1")]:
        with pytest.raises(RefusedError, match="cluster default has resourcemanager@master, namenode@master"):
            find_daemon(config, kind, host)


def test_a_pair_of_namenodes_is_a_name_service_in_every_configuration(tmp_path: Path) -> None:
    config, folder = ClusterConfig("mine", hosts=2, namenodes=2), ClusterFolder(tmp_path)
    assert [daemon.name for daemon in daemons_of(config)][:3] == [
        *("resourcemanager@master", "namenode@master", "namenode@master2")
    ]
    with pytest.raises(RefusedError, match="namenode on which host"):
        find_daemon(config, "namenode", None)
    for host in config.all_hosts:
        write_conf(config, folder, host)
        hadoop = HadoopConf.from_folder(folder.conf(host.name))
        assert hadoop.default_fs == "hdfs://lake"
        assert hadoop.namenodes("lake") == (
            NameNode("master.mine.test:8020", "http://master.mine.test:9870"),
            NameNode("master2.mine.test:8020", "http://master2.mine.test:9870"),
        )
    with pytest.raises(RefusedError, match="namenodes"):
        ClusterConfig(namenodes=3)


def test_a_setting_goes_to_the_file_in_which_hadoop_looks_for_it(tmp_path: Path) -> None:
    settings = {
        "fs.trash.interval": "5",
        "dfs.blocksize": "<1 & 2>",
        "yarn.nodemanager.vmem-check-enabled": "true",
        "yarn.scheduler.capacity.root.queues": "default,other",
    }
    config, folder = ClusterConfig(settings=tuple(settings.items())), ClusterFolder(tmp_path)
    write_conf(config, folder, config.host("host1"))
    files = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml", "capacity-scheduler.xml")
    for file, (key, value) in zip(files, settings.items(), strict=True):
        assert properties(folder.conf("host1") / file)[key] == value


def test_clients_give_up_on_a_resourcemanager_soon_and_nodemanagers_do_not(tmp_path: Path) -> None:
    config, folder = ClusterConfig(), ClusterFolder(tmp_path)
    waits = []
    for host in ("edge", "host1"):
        write_conf(config, folder, config.host(host))
        waits.append(properties(folder.conf(host) / "yarn-site.xml")["yarn.resourcemanager.connect.max-wait.ms"])
    assert waits == ["20000", "900000"]


def test_a_process_is_read_from_its_record_whatever_its_name(tmp_path: Path) -> None:
    record = tmp_path / "record"
    assert read_record(record) is None
    record.write_text("", encoding="ascii")
    assert read_record(record) is None
    numbers = " ".join(str(number) for number in range(4, 53))
    record.write_text(f"4711 (a) S 1 b) (c) S {numbers}\n", encoding="ascii")
    assert read_record(record) == Process(4711, start_ticks=22)


def test_a_later_process_of_the_same_pid_is_another_one() -> None:
    line = Path("/proc/self/stat").read_text(encoding="utf-8")
    ticks = int(line.rpartition(") ")[2].split()[19])
    assert Process(os.getpid(), ticks).state() is State.RUNNING
    assert Process(os.getpid(), ticks - 1).state() is State.ENDED


def test_someone_who_reads_the_logs_does_not_belong_to_the_cluster(tmp_path: Path) -> None:
    reader = subprocess.Popen(["sleep", "100"], cwd=tmp_path)
    try:
        assert owned(ClusterFolder(tmp_path)) == set()
    finally:
        reader.kill()
        reader.wait()


def test_the_lock_is_on_the_folder_that_is_there(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / "clusters/mine")
    waited: list[str] = []
    with folder.locked(lambda: waited.append("first")):
        folder.remove()
        assert not folder.path.parent.exists()
        with folder.locked(lambda: waited.append("second")):  # another folder of the same name: not waited for
            assert folder.path.is_dir()
    assert waited == []


def test_a_folder_is_cleared_under_its_lock(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / "mine")
    waited: list[str] = []
    with folder.locked(lambda: waited.append("first")):
        folder.create(ClusterConfig())
        (folder.data("host1") / "closed").mkdir(parents=True)
        (folder.data("host1") / "closed").chmod(0o500)
        identity = folder.path.stat().st_ino
        folder.clear()
        assert list(folder.path.iterdir()) == []
        assert folder.path.stat().st_ino == identity
    assert waited == []
