"""Where a cluster cannot be: one line that says what to do, exit code 2, and nothing made."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from minihadoop_command import started

from minihadoop import jars
from minihadoop.waiting import wait_for

SYSTEM = ("sh", "cat", "cp", "mkdir", "sleep", "true")
TOOLS = (*SYSTEM, "ip", "unshare", "nsenter", "setsid", "mount", "hostname", "java", "mvn")

pytestmark = pytest.mark.more(
    "unit/test_minihadoop.py::test_a_name_that_is_no_label_of_a_domain_is_refused",
)


class Machine:
    """A PATH with the tools that a test wants there to be, and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.cache = folder / "bin", folder / "cache"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, f"{tool} is needed for these tests"
            (self.bin / tool).symlink_to(os.path.realpath(found) if tool == "java" else found)

    def lacks(self, tool: str) -> None:
        (self.bin / tool).unlink()

    def has(self, tool: str, script: str) -> None:
        """Puts a script in the place of a tool."""
        self.lacks(tool)
        (self.bin / tool).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (self.bin / tool).chmod(0o755)

    def started(self, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
        kept = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
        return started(arguments, {**kept, "PATH": str(self.bin), "SPARKTF_CACHE": str(self.cache)})

    def refusal(self, *arguments: str) -> str:
        """Runs a command that is refused and returns the one line it says."""
        with self.started(*arguments) as process:
            said, _ = process.communicate(timeout=30)
        assert process.returncode == 2, said
        assert said.count("\n") == 1
        return said


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("tool", "advice"),
    [
        (
            "ip",
            "iproute2 is needed and there is no ip on the PATH: install it (Debian, Ubuntu: apt-get install iproute2)",
        ),
        ("nsenter", "apt-get install util-linux"),
        ("mvn", "Maven is needed to download Hadoop and there is no mvn on the PATH: install it"),
        ("java", "Java 17 or newer is needed and there is no java on the PATH: install a JDK"),
    ],
)
def test_a_missing_tool_is_named_with_its_package(machine: Machine, tool: str, advice: str) -> None:
    machine.lacks(tool)
    assert advice in machine.refusal("up")
    assert not list(machine.cache.glob("*"))


def test_an_old_java_is_named(machine: Machine) -> None:
    home = machine.bin.parent / "jdk/bin"
    home.mkdir(parents=True)
    machine.has("java", "echo 'openjdk version \"11.0.22\" 2024-01-16' >&2")
    shutil.move(machine.bin / "java", home / "java")
    (machine.bin / "java").symlink_to(home / "java")
    assert "Java 17 or newer is needed, found 11" in machine.refusal("up")


def test_a_user_without_namespaces_is_told_the_two_ways(machine: Machine) -> None:
    machine.has("unshare", "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1")
    said = machine.refusal("up")
    assert said.startswith("network namespaces are needed: run as root, or allow user namespaces")
    assert said.endswith("Operation not permitted\n")
    assert not machine.cache.exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--name", "My Cluster", "up"], "name 'My Cluster': lower-case letters"),
        (["--name", "../..", "down"], "name '../..': lower-case letters"),
        (["up", "--hosts", "0"], "hosts 0: from 1 to 200"),
        (["up", "--hosts", "2", "--replication", "3"], "replication 3: from 1 to the number of hosts, 2"),
        (["up", "--set", "dfs.blocksize"], "--set dfs.blocksize: must be KEY=VALUE"),
        (["exec", "--", "true"], "there is no cluster default: start it with `yarn/minihadoop.sh --name default up`"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(machine: Machine, arguments: list[str], reason: str) -> None:
    assert reason in machine.refusal(*arguments)


def test_an_interrupted_download_is_done_again(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = 'for word in "$@"; do case $word in -DoutputDirectory=*) lib=${word#*=};; esac; done; mkdir -p "$lib"'
    machine.has("mvn", f'{target}; : >"$lib/half.jar"; exec sleep 1000')
    with machine.started("up") as process:
        half = f"{machine.cache}/hadoop-{jars.hadoop_version()}.partial/lib/half.jar"
        wait_for("Maven writes", lambda: "" if os.path.exists(half) else "no file", 30)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130

    pages = tmp_path / "pages.jar"
    with zipfile.ZipFile(pages, "w") as jar:
        jar.writestr("webapps/hdfs/index.html", "page")
        jar.writestr("org/Test.class", "")
    machine.has("mvn", f'{target}; : >"$lib/whole.jar"; cp {pages} "$lib/hadoop-hdfs-3.5.0-tests.jar"')
    monkeypatch.setenv("PATH", str(machine.bin))
    monkeypatch.setenv("SPARKTF_CACHE", str(machine.cache))
    there = jars.resolve(print)
    assert there.is_complete()
    assert [path.name for path in there.lib.iterdir()] == ["whole.jar"]
    assert [str(path.relative_to(there.home)) for path in there.home.rglob("*.*")] == ["webapps/hdfs/index.html"]

    there.mark.write_text("made from another pom", encoding="utf-8")
    assert not there.is_complete()


def test_maven_fails_with_its_last_lines(machine: Machine) -> None:
    machine.has("mvn", "echo '[ERROR] Could not resolve host'; exit 1")
    with machine.started("up") as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Maven did not get Hadoop's jars, exit code 1:\n[ERROR] Could not resolve host\n" in said
