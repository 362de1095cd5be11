"""`sparktf doctor --nodes`: what it says of nodes that came, that did not, and that are not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparktf.config.load import parse_config
from sparktf.doctor.diagnosis import Mark
from sparktf.doctor.node_verdicts import disk_of, judge_gang
from sparktf.driver.code.foreign_imports import foreign_imports
from sparktf.driver.gang.looking_gang import peers_of
from sparktf.executor.looking_agent import free_memory_mib, least_disk, link_to
from sparktf.process.ports import BoundPort
from sparktf.wire.node_look import FreeDisk, NodeFacts, NodeFound, NodesFound, TriedLink

VERSIONS = {"python": "3.11.7", "sparktf": "0.1.0", "tensorflow": "2.21.0", "pyarrow": "26.0.1"}
CONFIG = parse_config("""\
name: t
model: m:build
data: {path: lake, inputs: {x: x}, targets: {y: y}}
output: {path: runs}
cluster: {workers: 2, trainer_memory_mib: 2048, node_ports: 30000-30100}
""")
GOOD: dict[str, Any] = {
    "python": "/env/bin/python",
    "disk": FreeDisk(folder="/data/1/usercache/ann/appcache/application_1_1/blockmgr-1", free_mib=50_000),
    "memory_free_mib": 9_000,
    "wall_s": 0.0,
}


def node(host: str, *failures: str, ahead_s: float = 0.0, problems: tuple[str, ...] = (), **facts: Any) -> NodeFound:
    """Returns a node; `failures` are those of its links, "" for one that it has."""
    return NodeFound(
        host=host,
        address=f"{host}:30000",
        versions=VERSIONS | facts.pop("versions", {}),
        problems=problems,
        facts=NodeFacts(**GOOD | facts),
        ahead_s=ahead_s,
        links=tuple(TriedLink(address=f"other{i}:30000", failure=failure) for i, failure in enumerate(failures)),
    )


def found(*nodes: NodeFound, **more: Any) -> NodesFound:
    usual: dict[str, Any] = {
        "place": "yarn, queue nights",
        "control": "grpc+tls://edge:7100",
        "wanted": 2,
        "waited_s": 4.2,
        "executors": tuple(node.host for node in nodes),
        "versions": VERSIONS,
    }
    return NodesFound(nodes=nodes, **usual | more)


def said(found: NodesFound, room: str = "") -> dict[str, tuple[str, str]]:
    return {one.subject: (one.mark.value, one.found) for one in judge_gang(CONFIG, found, 300.0, room)}


def test_nodes_in_order_are_told_in_three_lines() -> None:
    assert said(found(node("a", ""), node("b", ""))) == {
        "nodes": ("ok", "2 in 4 s on a, b: Python 3.11.7, sparktf 0.1.0, TensorFlow 2.21.0, PyArrow 26.0.1"),
        "hosts": (
            "ok",
            "at least 50,000 MiB of disk free (/data/1 on a), 9,000 MiB of memory (a), clocks within 0.1 s of this one",
        ),
        "network": ("ok", "all reach the driver here at edge:7100, and each other at cluster.node_ports: 30000-30100"),
    }


@pytest.mark.parametrize(
    ("nodes", "subject", "mark", "text"),
    [
        (
            [node("a", problems=("python 3.12.1, but the driver has 3.11.7: use one",)), node("b")],
            "nodes",
            Mark.STOP,
            "on a: python 3.12.1, but the driver has 3.11.7: use one",
        ),
        (
            [node("a", missing=("sklearn", "xgboost")), node("b", missing=("sklearn", "xgboost"))],
            "nodes",
            Mark.STOP,
            "on a, b: the model imports sklearn, xgboost, which /env/bin/python lacks: install them there, or bring an "
            "environment that has them (sparktf pack)",
        ),
        (
            [node("a"), node("b", versions={"pyarrow": "18.0.0"})],
            "nodes",
            Mark.NOTE,
            "PyArrow is 18.0.0 on b and 26.0.1 here: run both from one environment (sparktf pack)",
        ),
        (
            [node("a"), node("b", disk=FreeDisk(folder="/data/2/spark-1/x", free_mib=100))],
            "hosts",
            Mark.STOP,
            "at least 100 MiB of disk free (/data/2 on b)",
        ),
        ([node("a"), node("b", disk=FreeDisk(folder="/d", free_mib=3000))], "hosts", Mark.NOTE, "shuffles and copies"),
        ([node("a"), node("b", ahead_s=-40.0)], "hosts", Mark.NOTE, "clocks within 40.0 s of this one, that of b"),
        (
            [node("a", memory_free_mib=3000), node("a", memory_free_mib=3000)],
            "hosts",
            Mark.NOTE,
            "2 trainers on a may take 4,096 MiB: lower cluster.trainer_memory_mib",
        ),
        (
            [node("a", "timed out"), node("b", "timed out")],
            "network",
            Mark.STOP,
            "a does not reach other0:30000 (timed out); b does not reach other0:30000 (timed out): let "
            "cluster.node_ports: 30000-30100, pass between all hosts of the cluster",
        ),
        ([node("a"), node("b")], "network", Mark.NOTE, "each other was not tried in time"),
    ],
)
def test_what_is_wrong_with_nodes_that_came_is_told_with_whom_it_is_true_of(
    nodes: list[NodeFound], subject: str, mark: Mark, text: str
) -> None:
    told = said(found(*nodes))
    assert told[subject][0] == mark
    assert text in told[subject][1]


@pytest.mark.parametrize(
    ("came", "text"),
    [
        (
            found(node("a"), waited_s=60.0),
            "of 2 nodes on yarn, queue nights, 1 came within 60 s (on a); YARN is full: free some executors, or lower "
            "cluster.workers, or see whether more come within timeouts.reserve (300 s), as long as a run waits",
        ),
        (
            found(waited_s=60.0, executors=("a", "b")),
            "of 2 nodes on yarn, queue nights, 0 came within 60 s, though there are executors on a, b: their tasks do "
            "not reach the driver at "
            "grpc+tls://edge:7100, or do not start: let cluster.control_port pass from there, and see the executors' "
            "logs",
        ),
        (found(waited_s=2.0, error="the executors' Python has no module 'sparktf'"), "the executors' Python has no"),
        (NodesFound(error="submit.queue: nights does not exist"), "submit.queue: nights does not exist"),
    ],
)
def test_nodes_that_did_not_come_are_told_with_the_reason(came: NodesFound, text: str) -> None:
    mark, told = said(came, "YARN is full")["nodes"]
    assert mark == "stop"
    assert told.startswith(text)


def test_of_many_hosts_and_faults_a_line_names_the_first() -> None:
    many = [node(f"h{i}", "no route") for i in range(9)]
    told = said(found(*many, wanted=9))
    assert told["nodes"][1].startswith("9 in 4 s on h0, h1, h2 and 6 more: ")
    assert "h2 does not reach other0:30000 (no route); and 6 more: let" in told["network"][1]


def test_each_agent_tries_those_after_it() -> None:
    peers = peers_of({"a": "a:1", "b": "b:1", "c": "c:1"}, most=2)
    assert peers == {"a": ("b:1", "c:1"), "b": ("c:1", "a:1"), "c": ("a:1", "b:1")}
    many = peers_of({f"{i}": f"h{i}:1" for i in range(40)}, most=8)
    assert {len(tried) for tried in many.values()} == {8}
    assert {address for tried in many.values() for address in tried} == {f"h{i}:1" for i in range(40)}
    assert peers_of({"a": "a:1"}) == {"a": ()}


def test_an_agent_reaches_those_who_let_it_connect() -> None:
    port = BoundPort()
    assert link_to(f"127.0.0.1:{port.port}").failure == "Connection refused", "bound alone, as in a run"
    port.let_connect()
    assert link_to(f"127.0.0.1:{port.port}").failure == ""
    port.close()


def test_the_least_disk_counts_and_a_folder_that_is_gone_does_not(tmp_path: Path) -> None:
    assert least_disk([str(tmp_path / "gone"), ""]) is None
    least = least_disk([str(tmp_path / "gone"), str(tmp_path)])
    assert least is not None
    assert least.folder == str(tmp_path)
    assert disk_of("/data/1/spark-4f/executor-8/blockmgr-8") == "/data/1"
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    4096 kB\n", encoding="ascii")
    assert free_memory_mib(tmp_path / "meminfo") == 4
    assert free_memory_mib(tmp_path / "gone") is None


def test_modules_that_the_model_always_imports_are_looked_for(tmp_path: Path) -> None:
    texts = {
        "pack/__init__.py": "",
        "pack/model.py": "import os, numpy.linalg\nfrom . import rows\nfrom .rows import read\nimport beside\n"
        "try:\n    import cupy\nexcept ImportError: pass\ndef build():\n    import late",
        "pack/rows.py": "from sklearn.preprocessing import scale\nimport sparktf",
        "pack/unused.py": "import pytest",
        "beside.py": "import xgboost\nif True:\n    import never",
        "broken.py": "import (",
    }
    files = {}
    for name, text in texts.items():
        files[name] = tmp_path / name
        files[name].parent.mkdir(exist_ok=True)
        files[name].write_text(text, encoding="utf-8")
    assert foreign_imports(["pack.model", "broken"], files) == ("numpy", "sklearn", "xgboost")
    assert foreign_imports(["archived"], {}) == ()
