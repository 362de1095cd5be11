"""`sparktf doctor`: what it says of each thing, what stops a run, and that it never waits for what does not answer."""

from __future__ import annotations

import datetime as dt
import functools
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparktf.commands.cli import main
from sparktf.config.job import JobConfig
from sparktf.config.load import parse_config
from sparktf.doctor import hadoop_cluster, this_machine
from sparktf.doctor.asked_nodes import RoomLeft, ask_nodes, room_of, telling
from sparktf.doctor.diagnosis import Diagnosis, Mark, fine
from sparktf.doctor.examination import look_at_all
from sparktf.doctor.hadoop_cluster import ServerTime, Ticket
from sparktf.driver.spark.differences import SparkBuild
from sparktf.errors import PreflightError
from sparktf.hadoop import HadoopConf
from sparktf.results.time_limit import TimeLimit
from sparktf.storage.local import LocalStorage
from sparktf.submit.cluster_web import ClusterWeb
from sparktf.submit.resource_managers import ResourceManagers
from sparktf.submit.yarn import Queue, Queues, YarnHost, parse_queues

CONFIG = """\
name: digits
model: models.digits:build
data: {path: "lake/{{date}}", inputs: {x: x}, targets: {y: y}}
output: {path: runs}
"""
NOON = dt.datetime(2026, 11, 20, 12)
MANAGERS = ResourceManagers(("rm:8032",), ("http://rm:8088",), 8192)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def conf_dir(folder: Path, **properties: str) -> str:
    """Writes a configuration of Hadoop; a key's `_` stands for a dot, `__` for a hyphen."""
    rows = "".join(
        f"<property><name>{key.replace('__', '-').replace('_', '.')}</name><value>{value}</value></property>"
        for key, value in properties.items()
    )
    folder.mkdir()
    (folder / "core-site.xml").write_text(f"<configuration>{rows}</configuration>", encoding="utf-8")
    return str(folder)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def looked(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, tuple[str, str]]]:
    """Returns the exit code, and mark and text by subject."""
    code = main(["doctor", "--json", *arguments])
    found = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == code
    return code, {one["subject"]: (one["mark"], one["found"]) for one in found["diagnoses"]}


def test_a_machine_without_a_cluster_is_fit_for_local_runs(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    local = ["--set", "submit.master=local[3]", "--set", "submit.deploy_mode=client"]
    code, found = looked(["--config", config, *local], capsys)
    assert code == 0
    assert {subject for subject, (mark, _) in found.items() if mark == "stop"} == set()
    assert found["configuration"][1] == f"{config}: 2 nodes on local[3]"
    assert found["Hadoop"][1].startswith("neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set")
    assert found["output"] == ("ok", f"{Path(config).parent}/runs can be made in {Path(config).parent}")
    assert not Path(config).with_name("runs").exists()
    assert "YARN" not in found


def test_people_get_a_line_for_each_thing_and_what_it_comes_to(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "nothing that was looked at would stop a run"
    assert {line.split()[0] for line in lines} <= {"ok", "note"}
    monkeypatch.setenv("JAVA_HOME", "/no/java/here")
    assert main(["doctor"]) == 2
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "1 thing would stop a run"
    (stopped,) = [line for line in lines if line.startswith("stop")]
    assert "Java" in stopped
    assert "JAVA_HOME=/no/java/here has no bin/java; Spark needs Java" in stopped


def test_what_stops_a_run_on_yarn_is_told_with_what_to_do(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = looked(["--config", config], capsys)
    assert code == 2
    assert found["Hadoop"][0] == "stop"
    assert found["Hadoop"][1].endswith("and submit.master is yarn: name the folder of yarn-site.xml in one of them")
    addresses = {"yarn_resourcemanager_address": f"localhost:{closed_port()}", "fs_defaultFS": "file:///"}
    monkeypatch.setenv("HADOOP_CONF_DIR", conf_dir(tmp_path / "conf", **addresses))
    code, found = looked(["--config", config, "--set", "submit.archive=no.tar.gz"], capsys)
    assert code == 2
    assert found["YARN"][0] == found["nodes"][0] == "stop"
    assert "(Connection refused): is it up, and is that the address in yarn-site.xml?" in found["YARN"][1]
    assert found["nodes"][1].startswith("submit.archive: no.tar.gz does not exist: write it with sparktf pack")
    assert found["output"][0] == "ok"


@pytest.mark.parametrize(
    ("arguments", "subject", "said"),
    [
        (["--set", "train.epoch=3"], "configuration", "train.epoch is unknown: did you mean train.epochs?"),
        (["--set", "output.path=ftp://lake/runs"], "output", "ftp:// is not supported"),
        (["--set", "output.path=hdfs://127.0.0.1:{closed}/runs"], "output", "connection refused"),
    ],
)
def test_a_configuration_that_cannot_run_is_refused(
    arguments: list[str], subject: str, said: str, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    local = ["--set", "submit.master=local[3]", "--set", "submit.deploy_mode=client"]
    arguments = [argument.replace("{closed}", str(closed_port())) for argument in arguments]
    code, found = looked(["--config", config, *local, *arguments], capsys)
    assert code == 2
    assert found[subject][0] == "stop"
    assert said in found[subject][1]


def test_an_override_without_a_configuration_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--set", "train.epochs=3"]) == 2
    assert capsys.readouterr().err.startswith("--set changes a configuration: name it with --config FILE")


def test_what_does_not_answer_is_not_waited_for() -> None:
    released = threading.Event()

    def never() -> Diagnosis:
        released.wait(60)
        return fine("YARN", "too late")

    def breaks() -> Diagnosis:
        raise RuntimeError("no such thing")

    began_s = time.monotonic()
    stuck, broken, quick = look_at_all({"YARN": never, "queue": breaks, "Java": lambda: fine("Java", "17")}, 0.3)
    assert time.monotonic() - began_s < 10
    released.set()
    assert (stuck.mark, quick.mark) == (Mark.STOP, Mark.OK)
    assert stuck.found.startswith("gave no answer within 0.3 s: see whether it is up")
    assert (broken.mark, broken.found) == (Mark.NOTE, "could not be looked at: RuntimeError: no such thing")


@pytest.mark.parametrize(
    ("judged", "mark", "said"),
    [
        (lambda: this_machine.judge_memory(0, None, 9000, Path("/t")), "ok", "unknown memory, 9,000 MiB of disk free"),
        (lambda: this_machine.judge_memory(5000, 4000, 9000, Path("/t")), "note", "here may take 5,000 MiB: lower"),
        (lambda: this_machine.judge_memory(0, 4000, 2000, Path("/t")), "note", "which Spark's shuffles"),
        (lambda: this_machine.judge_memory(0, 4000, 9, Path("/t")), "stop", "make room there, or name another"),
        (lambda: this_machine.judge_address("h", "10.0.0.7", is_reached=True), "ok", "as h (10.0.0.7)"),
        (lambda: this_machine.judge_address("h", "127.0.1.1", is_reached=False), "ok", "no matter, unless"),
        (lambda: this_machine.judge_address("h", "127.0.1.1", is_reached=True), "note", "or set SPARK_LOCAL_IP"),
        (lambda: this_machine.judge_address("h", None, is_reached=True), "note", "resolves to no address, but"),
        (lambda: this_machine.judge_libraries({"keras": "3"}), "stop", "lacks tensorflow, numpy, pyarrow: pip install"),
        (lambda: spark(SparkBuild("3.5.6", "2.12"), "3.5.6"), "ok", "3.5.6 (Scala 2.12) at /spark"),
        (lambda: spark(SparkBuild("3.5.6", "2.12"), "4.1.0"), "note", "beside sparktf is 4.1.0, and spark-submit"),
        (lambda: spark(None, None), "note", "of unknown version"),
        (lambda: configured({}), "stop", "has none of core-site.xml"),
        (lambda: configured({"fs.defaultFS": "hdfs://nn"}), "ok", "/c, fs.defaultFS is hdfs://nn"),
        (lambda: queue("nights", queues("nights")), "ok", "root.nights is running"),
        (lambda: queue("nights", queues("nights", "STOPPED")), "stop", "root.nights is STOPPED: name another one"),
        (lambda: queue("days", queues("nights")), "stop", "days does not exist in YARN: name one of nights"),
        (lambda: queue("days", Queues((), complete=False)), "note", "YARN makes it on demand"),
        (lambda: queue("default", queues("nights")), "note", "places applications elsewhere"),
        (lambda: queue("days", None), "note", "does not tell"),
        (lambda: yarn(None, None), "note", "its REST API tells nothing at http://rm:8088"),
        (lambda: yarn(None, []), "stop", "no NodeManager is running"),
        (lambda: yarn(None, [4096]), "ok", "1 host, 4,096 MiB, 4,096 MiB of them free; the largest container 8,192"),
        (lambda: yarn(job(), [8192, 8192]), "ok", "2 nodes need 10,240 MiB (executor 4,096 MiB, driver 2,048 MiB)"),
        (lambda: yarn(job(), [4096, 4096]), "stop", "lower cluster.workers or cluster.trainer_memory_mib"),
        (lambda: ticket(None, wanted=False), "ok", "does not ask for it"),
        (lambda: ticket(None, keytab=True), "ok", "the submission names a keytab"),
        (lambda: ticket(None), "note", "no klist"),
        (lambda: ticket(Ticket(is_valid=False)), "stop", "no valid ticket: run kinit, or name a keytab"),
        (lambda: ticket(Ticket(True, NOON + dt.timedelta(hours=9))), "ok", "for 9.0 h more"),
        (lambda: ticket(Ticket(True, NOON + dt.timedelta(minutes=6))), "note", "for 0.1 h more, and a longer run"),
        (
            lambda: ticket(Ticket(True, NOON + dt.timedelta(hours=9)), hours=9.5),
            "note",
            "may last 9.5 h (train.max_sec",
        ),
        (lambda: ticket(Ticket(True, NOON + dt.timedelta(hours=9)), hours=8.5), "ok", "for 9.0 h more"),
        (lambda: clocks(kerberos=True), "note", "no web server of the cluster tells the time"),
        (lambda: clocks(1.0, -2.0), "ok", "this machine and h0, h1 agree"),
        (lambda: clocks(1.0, -400.0), "note", "h1 is 400 s behind this machine: have both follow one time server"),
        (lambda: clocks(400.0, kerberos=True), "stop", "Kerberos refuses tickets over such a difference"),
    ],
)
def test_each_thing_is_judged(judged: Callable[[], Diagnosis], mark: str, said: str) -> None:
    diagnosis = judged()
    assert diagnosis.mark == mark
    assert said in diagnosis.found


def spark(build: SparkBuild | None, pyspark: str | None) -> Diagnosis:
    return this_machine.judge_spark(Path("/spark"), build, pyspark)


def configured(properties: dict[str, str]) -> Diagnosis:
    return hadoop_cluster.judge_configuration(Path("/c"), HadoopConf(properties=properties), needs_yarn=True)


def queues(name: str, state: str = "RUNNING") -> Queues:
    """Returns queues as the capacity scheduler tells of them."""
    return parse_queues({"queues": {"queue": [{"queuePath": f"root.{name}", "queueName": name, "state": state}]}})


def queue(name: str, found: Queues | None) -> Diagnosis:
    return hadoop_cluster.judge_queue(name, found)


def job() -> JobConfig:
    return parse_config(CONFIG.replace("{{date}}", "d"))


def yarn(config: JobConfig | None, sizes_mib: list[int] | None) -> Diagnosis:
    hosts = None if sizes_mib is None else [YarnHost(f"h{n}", mib, mib, 4, 4) for n, mib in enumerate(sizes_mib)]
    return hadoop_cluster.judge_yarn(config, MANAGERS, hosts, None)


def ticket(found: Ticket | None, *, wanted: bool = True, keytab: bool = False, hours: float | None = None) -> Diagnosis:
    said = "train.max_seconds: 34200"
    limit = None if hours is None else TimeLimit(reason="max_seconds", said=said, left_s=3600 * hours)
    return hadoop_cluster.judge_ticket(found, NOON, wanted=wanted, keytab=keytab, limit=limit)


def clocks(*ahead_s: float, kerberos: bool = False) -> Diagnosis:
    return hadoop_cluster.judge_clocks([ServerTime(f"h{n}", s) for n, s in enumerate(ahead_s)], kerberos=kerberos)


def test_a_container_that_no_host_has_room_for_is_refused() -> None:
    with pytest.raises(PreflightError, match="needs 3,712 MiB, but the largest host of YARN has 2,048 MiB: lower"):
        yarn(job(), [2048] * 9)
    limited = Queues((Queue("root.default", 1024),), complete=True)
    with pytest.raises(PreflightError, match=r"but YARN's queue default gives a container at most 1,024 MiB"):
        hadoop_cluster.judge_yarn(job(), MANAGERS, [YarnHost("h", 9999, 9999, 4, 4)], limited)


@pytest.mark.parametrize(
    ("line", "expires"),
    [
        ("11/20/26 09:00:00  11/20/26 19:00:00  krbtgt/LAKE@LAKE", dt.datetime(2026, 11, 20, 19)),
        ("11/20/2026 09:00:00  11/20/2026 19:00:00  krbtgt/LAKE@LAKE", dt.datetime(2026, 11, 20, 19)),
        ("20.11.26 09:00:00  20.11.26 19:00:00  krbtgt/LAKE@LAKE", None),
        ("klist: No credentials cache found", None),
    ],
)
def test_the_end_of_a_ticket_is_read_from_klist(line: str, expires: dt.datetime | None) -> None:
    head = (
        "Ticket cache: FILE:/tmp/krb5cc_0\nDefault principal: ann@LAKE\n\nValid starting   Expires   Service principal"
    )
    assert hadoop_cluster.expiry_of(f"{head}\n{line}\n\trenew until 11/27/26 09:00:00\n") == expires


class Late(http.server.BaseHTTPRequestHandler):
    """A server whose clock is behind, and which refuses whoever asks."""

    def do_HEAD(self) -> None:
        self.send_error(401)

    def date_time_string(self, timestamp: float | None = None) -> str:
        del timestamp
        return super().date_time_string(time.time() - 3600)

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture
def late_server() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Late) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_clock_of_a_server_that_refuses_us_is_read_too(late_server: str) -> None:
    managers = ResourceManagers(("rm:8032",), (late_server, f"http://127.0.0.1:{closed_port()}"), None)
    (found,) = hadoop_cluster.look_at_clocks(HadoopConf(), managers, ClusterWeb(None))
    assert found.host == "127.0.0.1"
    assert found.ahead_s == pytest.approx(-3600, abs=30)


def test_without_a_configuration_the_home_of_the_principal_is_looked_at_whoever_the_process_runs_as(
    tmp_path: Path,
) -> None:
    (tmp_path / "user/alice").mkdir(parents=True)
    systems: Any = SimpleNamespace(
        credentials=SimpleNamespace(user=lambda: "alice"),
        normalise=lambda path: f"{tmp_path}{path}",
        open=lambda path, deadline_s: LocalStorage(""),
    )
    found = hadoop_cluster.look_at_output(None, lambda _: systems)
    assert (found.mark, found.found) == ("ok", f"{tmp_path}/user/alice can be written")


def test_a_control_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = CONFIG.replace("{{date}}", "d") + f"cluster: {{control_port: {port}}}\nsubmit: {{deploy_mode: client}}\n"
        with pytest.raises(PreflightError, match=rf"cluster.control_port: {port} is taken on .*: name another one"):
            this_machine.look_at_ports(parse_config(text))


@pytest.mark.parametrize(
    ("hosts", "size", "others", "room"),
    [
        ((4096, 4096, 4096), 3200, (1920,), 2),  # one host has the driver, and no room for a node beside it
        ((4096, 4096, 4096), 2048, (1920,), 5),
        ((4096, 2048), 4096, (1920,), 1),
        ((8192,), 2048, (), 4),
        ((1024, 1024), 512, (1920,), 0),
    ],
)
def test_a_node_wants_room_on_one_host(hosts: tuple[int, ...], size: int, others: tuple[int, ...], room: int) -> None:
    assert hadoop_cluster.most_containers(hosts, size, others) == room


def test_nodes_are_asked_only_where_an_application_would_start(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor", "--nodes"]) == 2
    told = "--nodes looks at the nodes that a configuration asks for: name it with --config FILE"
    assert capsys.readouterr().err.startswith(told)
    local = ["--config", config, "--nodes", "--set", "submit.master=local[3]", "--set", "submit.deploy_mode=client"]
    code, found = looked(local, capsys)
    assert (code, found["nodes"][0]) == (0, "ok")
    assert found["nodes"][1] == "they are threads and processes of the driver's own machine, in local[3]"
    monkeypatch.setenv("JAVA_HOME", "/no/java/here")
    code, found = looked(local, capsys)
    assert (code, found["nodes"]) == (2, ("note", "not looked at before the above is mended: Java"))


SUBMITS = """\
#!/bin/sh
echo '@yarn Application report for application_1_0001 (state: ACCEPTED)' >&2
printf '%s\\n' '@yarn token: N/A\\n\\t diagnostics: the queue is full of others\\n\\t ApplicationMaster host: N/A' >&2
exec sleep 600
"""
KILLS = """\
#!/bin/sh
echo "$@" > {folder}/killed
"""


FAILS = """\
#!/bin/sh
cat >&2 <<END
Traceback (most recent call last):
py4j.protocol.Py4JJavaError: An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.lang.IllegalArgumentException: Required AM memory (92160+9216 MB) is above the max threshold (4096 MB)
\tat org.apache.spark.deploy.yarn.Client.verifyClusterResources(Client.scala:423)

END
exit 1
"""


@pytest.mark.parametrize(
    ("submits", "said", "killed"),
    [
        (
            SUBMITS,
            "YARN's queue default did not start application_1_0001 within 0.5 s; it is killed. "
            "YARN says: the queue is full of others",
            ["-kill", "application_1_0001"],
        ),
        (
            FAILS,
            "spark-submit ended without an answer. It said last: java.lang.IllegalArgumentException: Required AM "
            "memory (92160+9216 MB) is above the max threshold (4096 MB)",
            [],
        ),
    ],
)
def test_an_application_that_does_not_start_is_told_of_in_one_line_and_leaves_none(
    submits: str, said: str, killed: list[str], config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark/bin").mkdir(parents=True)
    for name, script in (("spark-submit", submits), ("spark-class", KILLS.format(folder=tmp_path))):
        (tmp_path / "spark/bin" / name).write_text(script, encoding="utf-8")
        (tmp_path / "spark/bin" / name).chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    addresses = {"yarn_resourcemanager_address": f"localhost:{closed_port()}", "fs_defaultFS": "file:///"}
    monkeypatch.setenv("HADOOP_CONF_DIR", conf_dir(tmp_path / "conf", **addresses))
    (tmp_path / "models").mkdir()
    (tmp_path / "models/digits.py").write_text("def build(): pass", encoding="utf-8")
    job = parse_config(CONFIG.replace("{{date}}", "x") + "timeouts: {reserve: 0.5}\n")
    (found,) = ask_nodes(job, tmp_path)
    assert (found.mark, found.found) == ("stop", said)
    told = tmp_path / "killed"
    assert (told.read_text(encoding="utf-8").split()[-2:] if told.exists() else []) == killed


def test_the_room_that_yarn_had_is_that_of_the_moment_when_it_was_full() -> None:
    job = parse_config(CONFIG.replace("{{date}}", "x"))

    def room(free_mib: int, free_vcores: int) -> RoomLeft | None:
        hosts = [YarnHost("full", 8192, 0, 8, 0), YarnHost("a", 8192, free_mib, 8, free_vcores)]
        manager: Any = SimpleNamespace(name="YARN", tells_room=True, step_mib=1024, hosts=lambda: hosts)
        return room_of(manager, job)

    begun, full, ended = room(8192, 8), room(512, 6), room(8192, 8)
    last = functools.reduce(telling, [begun, full, ended], None)
    assert last is full
    assert last is not None
    assert last.text.startswith("YARN's host with the most room, a, had 512 MiB and 6 vcores free, and each node takes")
    assert begun is not None
    assert begun.text.startswith("YARN had room for another on a (see the queue's limits")
    assert telling(None, begun) is begun
    silent: Any = SimpleNamespace(tells_room=False)
    assert room_of(silent, job) is None
