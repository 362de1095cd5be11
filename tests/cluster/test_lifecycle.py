"""Whatever ends a cluster, nothing of it stays: looked at from outside, by another way than its own records."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from minihadoop_command import started

from minihadoop import MiniHadoop, down
from minihadoop.layout import ClusterFolder
from minihadoop.namespaces import command_in
from minihadoop.processes import Process, read_record, recorded, spawn
from minihadoop.waiting import wait_for

MARK = "MINIHADOOP_TEST"

pytestmark = pytest.mark.more(
    "cluster/test_readme.py::test_it_trains_on_the_cluster_of_this_machine",
)


@dataclass
class Command:
    """The command line for one cluster, whose processes all carry a mark."""

    name: str
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def folder(self) -> ClusterFolder:
        return ClusterFolder.of(self.name)

    def started(self, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
        return started(["--name", self.name, *arguments], {**os.environ, MARK: self.mark})

    def run(self, *arguments: str, code: int = 0) -> str:
        with self.started(*arguments) as process:
            said, _ = process.communicate(timeout=150)
        assert process.returncode == code, said
        return said

    def marked(self) -> list[int]:
        """Returns the pids of all processes that descend from a command of this cluster's."""
        mark = f"{MARK}={self.mark}".encode()
        return [pid for pid in pids() if mark in read(pid, "environ").split(b"\0")]


def pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def machine() -> dict[str, object]:
    """Returns what a cluster might leave on the machine, apart from processes."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    clusters = ClusterFolder.of("any").path.parent
    own_tests = f"test-{os.getpid()}"
    return {
        "namespaces": output(["ip", "netns", "list"]),
        "links": re.findall(r"^\d+: ([^:@]+)", output(["ip", "link"]), re.M),
        "mounts": [line.split()[4] for line in mounts],
        "temporary": sorted(path.name for path in Path("/tmp").glob("*") if re.match("jetty|hadoop|Jetty", path.name)),
        "clusters": sorted(path.name for path in clusters.glob(f"{own_tests}*")),
        "hosts": Path("/etc/hosts").read_text(encoding="utf-8"),
    }


def wait_for_record(command: Command, name: str, process: subprocess.Popen[str]) -> Process:
    """Waits until a process of the cluster has recorded itself, while the command that starts it runs."""
    deadline = time.monotonic() + 60
    while not (found := read_record(command.folder.record(name))):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, name
        time.sleep(0.05)
    return found


@pytest.fixture
def command() -> Iterator[Command]:
    made = Command(f"test-{os.getpid()}-other")
    yield made
    down(made.name, print)


def test_a_cluster_in_a_user_namespace_is_used_from_outside_and_leaves_nothing(
    command: Command, shared_cluster: MiniHadoop, tmp_path: Path
) -> None:
    before = machine()
    arguments = ("up", "--hosts", "1", "--user-namespace", "--set", "dfs.blocksize=2097152")
    with command.started(*arguments) as other:
        said = command.run(*arguments)
        also, _ = other.communicate(timeout=150)
    row = re.search(r"^datanode +host1 +\d+ +10\.77\.0\.11:9866 +running +live *$", said, re.M)
    assert row, said
    assert row.group() in also
    assert (said + also).count(f"waiting for another command on cluster {command.name}") == 1
    assert "HADOOP_CONF_DIR" in command.run("status")

    (tmp_path / "words").write_text("some words", encoding="utf-8")
    command.run("tool", "fs", "-put", str(tmp_path / "words"), "/words")
    assert command.run("tool", "fs", "-cat", "/words") == "some words"
    assert command.run("tool", "fs", "-stat", "%o", "/words") == "2097152\n"
    assert command.run("exec", "--host", "host1", "--", "hostname") == f"host1.{command.name}.test\n"
    command.run("exec", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 &")
    command.run("exec", "--host", "host1", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 &")

    # The other cluster has the same addresses and is not disturbed.
    with shared_cluster.inside():
        shared_cluster.wait_until_up()
    assert len(command.marked()) == 3 + 4 + 2
    assert command.run("down") == f"cluster {command.name} is down\n"
    assert command.marked() == []
    assert machine() == before
    assert command.run("down") == f"there is no cluster {command.name}\n"
    assert command.run("status", code=1) == f"there is no cluster {command.name}\n"
    with shared_cluster.inside():
        shared_cluster.wait_until_up()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_nothing(command: Command, number: signal.Signals) -> None:
    before = machine()
    with command.started("up", "--hosts", "2") as process:
        wait_for_record(command, "nodemanager@host2", process)
        assert len(command.marked()) >= 4 + 6
        process.send_signal(number)
        said, _ = process.communicate(timeout=150)
    assert process.returncode == 130
    assert said.endswith("interrupted\n")
    assert command.marked() == []
    assert machine() == before


@pytest.mark.parametrize("last_record", ["holder@edge", "holder@host2", "namenode@master"])
def test_what_a_killed_start_leaves_is_swept_by_down(command: Command, last_record: str) -> None:
    before = machine()
    with command.started("up", "--hosts", "2") as process:
        wait_for_record(command, last_record, process)
        process.kill()
    assert command.run("down") == f"cluster {command.name} is down\n"
    wait_for("the last processes end", lambda: str(command.marked() or ""), 60)
    assert machine() == before


def test_containers_are_ended_also_when_nothing_else_is_left(command: Command) -> None:
    before = machine()
    with command.started("up", "--hosts", "1") as process:
        wait_for_record(command, "nodemanager@host1", process)
        host = wait_for_record(command, "holder@host1", process)
        unrecorded = command.folder.record("container")
        variables = {**os.environ, MARK: command.mark}
        on_host1 = command_in(host.pid, [], command.folder.data("host1"))
        spawn(unrecorded, ["sleep", "1000"], command.folder.log("container"), variables, on_host1)
        unrecorded.unlink()
        process.kill()
    for known in recorded(command.folder).values():
        known.send(signal.SIGKILL)
    wait_for("only the container is left", lambda: "" if len(command.marked()) == 1 else "others", 60)
    command.run("down")
    assert command.marked() == []
    assert machine() == before


def test_a_record_of_another_process_ends_nobody(command: Command) -> None:
    with subprocess.Popen(["sleep", "1000"]) as innocent:
        with command.started("up", "--hosts", "1") as process:
            wait_for_record(command, "holder@edge", process)
            process.kill()
        line = Path(f"/proc/{innocent.pid}/stat").read_text(encoding="ascii")
        start = line.rpartition(") ")[2].split()[19]
        earlier = line.replace(f" {start} ", f" {int(start) - 1} ")
        command.folder.record("namenode@master").write_text(earlier, encoding="ascii")
        command.run("down")
        ended = innocent.poll()
        innocent.kill()
    assert ended is None
