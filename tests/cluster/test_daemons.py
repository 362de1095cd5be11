"""A mini cluster is a real one: it stores and computes, and what is broken on it shows as it would elsewhere."""

from __future__ import annotations

import random
import socket
from dataclasses import replace

import pytest

from minihadoop import CommandError, DataNodeState, MiniHadoop, NodeState, RefusedError, State, up
from minihadoop.config import MIB
from minihadoop.waiting import wait_for

DATA = random.Random(7).randbytes(9 * MIB)

pytestmark = pytest.mark.more(
    "cluster/test_hdfs_storage.py::TestDataNodes::test_a_write_outlives_the_datanode_that_takes_it",
    "cluster/test_yarn_locality.py::test_nine_of_ten_bytes_are_read_on_their_own_host",
)


def replicas(hadoop: MiniHadoop, path: str) -> list[tuple[str, ...]]:
    """Returns the hosts of each block of a file."""
    return [block.hosts for block in hadoop.hdfs.block_locations(path)]


def test_every_daemon_is_in_service_on_a_host_of_its_own(hadoop: MiniHadoop) -> None:
    hosts = {f"host{i}" for i in range(1, 5)}
    assert {hadoop.state(daemon.kind.name, daemon.host.name) for daemon in hadoop.daemons} == {State.RUNNING}
    assert hadoop.hdfs.datanode_states() == dict.fromkeys(hosts, DataNodeState.LIVE)
    assert hadoop.yarn.node_states() == dict.fromkeys(hosts, NodeState.RUNNING)
    assert hadoop.yarn.metrics()["totalMB"] == 4 * 4096
    names = [hadoop.run(["hostname"], host.name).stdout.strip() for host in hadoop.config.all_hosts]
    assert names == [host.fqdn for host in hadoop.config.all_hosts]
    assert socket.gethostname() == hadoop.config.edge.fqdn


def test_a_file_comes_back_whole_and_each_block_is_on_two_hosts(hadoop: MiniHadoop) -> None:
    hadoop.hdfs.put("/whole/a file.bin", DATA)
    assert hadoop.hdfs.get("/whole/a file.bin") == DATA
    assert hadoop.hdfs.names("/whole") == ["a file.bin"]
    blocks = hadoop.hdfs.block_locations("/whole/a file.bin")
    assert [(block.offset, block.nbytes) for block in blocks] == [(0, 4 * MIB), (4 * MIB, 4 * MIB), (8 * MIB, MIB)]
    assert all(len(set(block.hosts)) == 2 for block in blocks)
    report = hadoop.hdfs.fsck("/whole")
    assert "is HEALTHY" in report
    assert report.count("Live_repl=2") == 3
    assert "a file.bin" in hadoop.tool("fs", "-ls", "/whole")
    assert hadoop.hdfs.delete("/whole")
    assert not hadoop.hdfs.delete("/whole")


def test_what_hdfs_refuses_is_said_in_its_words(hadoop: MiniHadoop) -> None:
    with pytest.raises(CommandError, match=r"404 FileNotFoundException: .*/nowhere"):
        hadoop.hdfs.get("/nowhere")
    with pytest.raises(CommandError, match=r"403 AccessControlException: Permission denied: user=alice"):
        hadoop.hdfs.put("/forbidden", b"", user="alice")
    with pytest.raises(CommandError, match=r"org.apache.hadoop.fs.FsShell -cat /nowhere, exit code 1:\n.*No such file"):
        hadoop.tool("fs", "-cat", "/nowhere")


def test_a_killed_datanode_is_noticed_and_comes_back_with_its_blocks(hadoop: MiniHadoop) -> None:
    hadoop.hdfs.put("/one", DATA[:MIB], replication=1)
    [(host,)] = replicas(hadoop, "/one")
    hadoop.kill("datanode", host)
    assert hadoop.state("datanode", host) is State.ENDED
    hadoop.wait_for_datanode(host, DataNodeState.DEAD)
    wait_for("the lost block is missed", lambda: "" if "CORRUPT" in hadoop.hdfs.fsck("/one") else "not yet", 60)
    hadoop.restart("datanode", host)
    wait_for("it reports the block", lambda: "" if replicas(hadoop, "/one") == [(host,)] else "not yet", 20)
    assert hadoop.hdfs.get("/one") == DATA[:MIB]


def test_a_frozen_datanode_goes_stale_and_thaws(hadoop: MiniHadoop) -> None:
    before = hadoop.process("datanode", "host1")
    hadoop.freeze("datanode", "host1")
    assert hadoop.state("datanode", "host1") is State.FROZEN
    hadoop.wait_for_datanode("host1", DataNodeState.STALE)
    hadoop.thaw("datanode", "host1")
    hadoop.wait_for_datanode("host1", DataNodeState.LIVE)
    assert hadoop.process("datanode", "host1") == before


def test_a_host_that_is_cut_off_is_silent_until_its_link_is_mended(hadoop: MiniHadoop) -> None:
    web = (hadoop.config.host("host2").fqdn, 9864)
    socket.create_connection(web, timeout=5).close()
    hadoop.cut("host2")
    with pytest.raises(OSError, match=r"timed out|No route"):
        socket.create_connection(web, timeout=2)
    hadoop.wait_for_datanode("host2", DataNodeState.STALE)
    assert hadoop.state("datanode", "host2") is State.RUNNING
    assert not hadoop.link_is_up("host2")
    hadoop.mend("host2")
    hadoop.wait_for_datanode("host2", DataNodeState.LIVE)
    socket.create_connection(web, timeout=5).close()


def test_the_links_count_the_bytes_that_a_reader_takes_from_a_host(hadoop: MiniHadoop) -> None:
    nbytes = 3 * MIB
    hadoop.hdfs.put("/read", DATA[:nbytes], replication=1)
    [(host,)] = replicas(hadoop, "/read")
    workers = [worker.name for worker in hadoop.config.workers]
    before = {name: hadoop.link_bytes(name) for name in workers}
    assert hadoop.hdfs.get("/read") == DATA[:nbytes]
    moved = {name: hadoop.link_bytes(name) - before[name] for name in workers}
    assert nbytes < moved[host].sent < 1.2 * nbytes
    assert all(moved[name].sent < 0.1 * nbytes for name in workers if name != host)


def test_daemons_show_their_metrics(hadoop: MiniHadoop) -> None:
    state = hadoop.jmx("Hadoop:service=DataNode,name=FSDatasetState", "datanode", "host3")
    assert state["Capacity"] > 0
    assert hadoop.jmx("Hadoop:service=NodeManager,name=NodeManagerMetrics", "nodemanager", "host3")["AvailableGB"] == 4


def test_up_again_starts_only_what_is_missing(hadoop: MiniHadoop) -> None:
    before = {daemon.name: hadoop.process(daemon.kind.name, daemon.host.name) for daemon in hadoop.daemons}
    hadoop.kill("nodemanager", "host4")
    hadoop.freeze("datanode", "host4")
    said: list[str] = []
    up(hadoop.config, said.append)
    assert said[:1] == ["starting nodemanager@host4 again"]
    after = {daemon.name: hadoop.process(daemon.kind.name, daemon.host.name) for daemon in hadoop.daemons}
    assert [name for name in after if after[name] != before[name]] == ["nodemanager@host4"]
    said.clear()
    up(hadoop.config, said.append)
    assert said == [f"cluster {hadoop.config.name} is up"]


def test_one_that_is_up_is_not_made_another(hadoop: MiniHadoop) -> None:
    with pytest.raises(RefusedError, match=r"up with another configuration \(hosts 4, block_mib 4\)"):
        up(replace(hadoop.config, hosts=3, block_mib=8), print)
    with pytest.raises(RefusedError, match=r"has no host 'host9': edge, master, host1"):
        hadoop.cut("host9")
    with pytest.raises(RefusedError, match=r"datanode on which host\?"):
        hadoop.kill("datanode")
