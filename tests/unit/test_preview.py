"""`sparktf plan`: what it says is what the run then does, and saying it leaves no trace."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from lakes import no_filter, write_lake
from pretend import PretendDriver, unmeasured

from sparktf.clock import SystemClock
from sparktf.commands.cli import main
from sparktf.config.load import load_config
from sparktf.driver.plan.paths import normalised
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.run import Run
from sparktf.errors import SparkTFError
from sparktf.knobs import KNOBS
from sparktf.nightly.night import Night
from sparktf.preview.forecast import Forecast
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems, normalise, open_storage
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.ownership import Ownership

ROWS = 229
CONFIG: dict[str, Any] = {
    "name": "t",
    "model": "leaf:build",
    "data": {"path": "lake", "inputs": {"id": "id", "x": ["a", "b"]}, "targets": {"y": "label"}},
    "cluster": {"workers": 1},
    "train": {"epochs": 1, "batch_size": 16},
    "output": {"path": "runs"},
}


class Night1:
    """A folder with a lake, a model and a configuration, in which runs are planned and trained."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        write_lake(folder / "lake")
        (folder / "leaf.py").write_text("def build(params, assets): ...\n", encoding="utf-8")
        self.configure()

    def configure(self, **sections: Any) -> None:
        config = {k: {**v, **sections.pop(k, {})} if isinstance(v, dict) else v for k, v in CONFIG.items()}
        (self.folder / "c.yaml").write_text(yaml.safe_dump({**config, **sections}), encoding="utf-8")

    def plan(self, *arguments: str, date: str = "2026-11-20") -> tuple[int, Forecast]:
        """Returns exit code and document of `sparktf plan`."""
        day = ("--date", date) if date else ()
        code = main(["plan", "c.yaml", *day, "--json", *(() if "--master" in arguments else HERE), *arguments])
        forecast = Forecast.model_validate_json(self._capsys.readouterr().out)
        assert forecast.exit_code == code
        return code, forecast

    def train(self, date: str = "2026-11-20", **driver_is: Any) -> RunResult:
        """Trains, with a node that is pretended; returns the result whatever the verdict."""
        config = normalised(load_config("c.yaml", (), date), normalise)
        driver = PretendDriver(Application(f"app-{date}"), config, plan_source(config, open_storage, no_filter))
        for name, value in driver_is.items():
            setattr(driver, name, value)
        night = Night(FileSystems(), driver.site.clock, unmeasured)
        try:
            return Run(driver.gang, config, date, night).execute()
        except SparkTFError as error:
            assert isinstance(error.result, RunResult)
            return error.result

    def traces(self) -> dict[str, tuple[int, int]]:
        """Returns all that there is, with sizes and times."""
        paths = [path for path in self.folder.rglob("*") if "__pycache__" not in path.parts]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


HERE = ("--master", "local[2]")


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Night1:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Night1(tmp_path, capsys)


def test_what_is_planned_is_what_the_run_then_reads(night: Night1) -> None:
    before = night.traces()
    code, planned = night.plan()
    assert night.traces() == before, "nothing is written"
    assert (code, planned.run.state, planned.data.files) == (0, "new", 5)
    (train,) = planned.data.streams
    result = night.train()
    assert result.verdict == 0, result.error
    assert (train.rows, planned.run.rows_left) == (ROWS, ROWS)
    assert {epoch.planned for epoch in result.rows} == {train.rows}
    assert f"{train.row_groups} row groups, {train.shuffle_blocks} shuffle block" in said(night)
    assert planned.updates is not None
    assert (planned.updates.per_epoch, planned.updates.total, planned.updates.exact) == (15, 15, True)
    assert planned.former.runs == ()
    assert planned.times.duration_s is None


def said(night: Night1) -> str:
    return "".join(p.read_text(encoding="utf-8") for p in (night.folder / "runs/t/2026-11-20/events").glob("*"))


def test_a_run_that_is_done_is_said_to_repeat_its_result(night: Night1) -> None:
    night.train()
    before = night.traces()
    code, planned = night.plan("--set", "cluster.workers=5")
    assert (code, planned.run.state, planned.run.verdict, planned.run.rows_left) == (0, "done", 0, 0)
    assert [problem.type for problem in planned.problems] == ["PreflightError"]
    assert planned.data.planned == "before"
    assert night.traces() == before


def test_a_run_that_has_failed_is_said_to_go_on_where_it_was(night: Night1) -> None:
    night.configure(train={"max_attempts": 1})
    assert night.train(failures=1).verdict == 4
    (night.folder / "lake/part-05.parquet").write_bytes(b"it is not looked at: the plan is stored")
    code, planned = night.plan()
    assert (code, planned.run.state, planned.run.verdict, planned.run.step) == (0, "decided", 4, 10)
    assert planned.run.owner is not None
    assert planned.run.owner.state == "released"
    assert (planned.data.planned, planned.run.rows_left) == ("before", ROWS - ROWS // 2)
    code, planned = night.plan("--set", "train.seed=7")
    assert (code, planned.problems[0].type) == (2, "ConfigError")
    assert "was planned with another data section or train.seed" in planned.problems[0].message


def test_a_run_that_somebody_owns_is_refused_by_name(night: Night1) -> None:
    night.configure(timeouts={"owner": 1})
    storage, rundir = LocalStorage(), RunDirectory(str(night.folder / "runs"), "t", "2026-11-20")
    storage.make_dirs(rundir.path)
    owner = Ownership(storage, storage, rundir, Application("application_1795_0042"), SystemClock(), 1.0)
    owner.acquire(lambda line: None, wait=False)
    try:
        code, planned = night.plan()
        assert planned.run.owner is not None
        assert (code, planned.run.owner.state) == (7, "owned")
        assert planned.run.owner.application == "application_1795_0042"
        assert planned.problems[0].type == "OwnedError"
        assert planned.data.streams[0].rows == ROWS, "the rest is said all the same"
    finally:
        owner.release()
    code, planned = night.plan()
    assert planned.run.owner is not None
    assert (code, planned.run.owner.state) == (0, "released")


def test_a_folder_of_somebody_elses_is_refused_as_the_run_would_refuse_it(night: Night1) -> None:
    LocalStorage().write_bytes(f"{night.folder}/runs/t/2026-11-20/part-0.parquet", b"a row of the lake")
    code, found = night.plan()
    assert code == 2
    assert "is not empty, but holds no run, only part-0.parquet" in found.problems[0].message


def test_an_owner_that_gives_no_sign_of_life_is_told_of(night: Night1) -> None:
    night.configure(timeouts={"owner": 1})
    term = night.folder / "runs/t/2026-11-20/owner/000001"
    term.mkdir(parents=True)
    owner = {"application": "a", "attempt": 0, "host": "edge1", "user": "etl", "since": "2026-11-20", "nonce": "n"}
    (term / "owner.json").write_text(json.dumps(owner), encoding="utf-8")
    (term / "beat").write_bytes(b"7")
    code, planned = night.plan()
    assert planned.run.owner is not None
    assert (code, planned.run.owner.state, planned.run.owner.user) == (0, "silent", "etl")
    assert "it is taken over after 1 s without one (timeouts.owner)" in planned.warnings[0]


@pytest.mark.parametrize(
    ("override", "code", "error"),
    [
        ("model=lief:build", 2, "ConfigError"),
        ("cluster.workers=3", 2, "PreflightError"),
        ("data.inputs.x=z", 3, "ColumnError"),
        ("data.path=nowhere", 3, "SourceNotFoundError"),
        ("data.ready.min_rows=230", 6, "NotReadyError"),
        ("data.checks.refuse.rows=[230, .inf]", 3, "DataError"),
        ("data.checks.refuse.columns.a.max=455", 3, "DataError"),
    ],
)
def test_the_exit_code_is_that_of_the_run(night: Night1, override: str, code: int, error: str) -> None:
    found, planned = night.plan("--set", override)
    assert (found, planned.problems[0].type, planned.problems[0].verdict) == (code, error, code)


def test_of_several_faults_the_one_decides_that_a_run_meets_first(night: Night1) -> None:
    wrong = ["data.ready.min_rows=230", "data.inputs.x=z", "cluster.workers=3"]
    code, planned = night.plan(*(part for one in wrong for part in ("--set", one)))
    assert code == 2
    assert [problem.type for problem in planned.problems] == ["PreflightError", "NotReadyError", "ColumnError"]


def test_data_that_is_there_is_ready_and_what_is_missing_is_named(night: Night1) -> None:
    assert night.plan("--set", "data.ready.min_rows=229")[1].data.ready is True
    late = night.plan("--set", "data.ready.success=true")[1].data
    assert (late.ready, late.streams[0].rows) == (False, ROWS)
    assert "has no _SUCCESS yet" in late.missing


def test_the_last_runs_say_how_long_it_takes_and_whether_that_is_in_time(night: Night1) -> None:
    result = night.train("2026-11-19")
    path = Path(result.path, "result.json")
    told = result.model_copy(update={"rows_trained": 4580, "seconds": {"plan": 5.0, "train": 458.0, "publish": 20.0}})
    path.write_text(told.model_dump_json(), encoding="utf-8")
    _, planned = night.plan("--set", "train.max_seconds=5m")
    former, times = planned.former, planned.times
    assert (former.runs, former.rows_s, former.epoch_rows) == (("2026-11-19",), 10.0, ROWS)
    assert former.checkpoint_nbytes == sum(p.stat().st_size for p in Path(result.checkpoint).glob("weights"))
    assert (times.train_s, times.duration_s, times.limit) == (22.9, 47.9, "train.max_seconds: 300")
    assert (times.reserve_s, times.in_time) == (KNOBS.publish_s, True)
    late = night.plan("--set", "train.max_seconds=76s")[1]
    assert late.times.in_time is False
    assert late.times.epochs_in_time == pytest.approx(11 / 22.9, abs=0.01)
    assert night.plan("--set", "train.epochs=20")[1].times.train_s == 458.0


def test_an_older_day_is_said_not_to_be_published_and_then_is_not(night: Night1) -> None:
    night.configure(publish={})
    first = night.plan(date="2026-11-21")[1].publish
    assert first is not None
    assert (first.outcome, first.version) == ("new", 1)
    assert night.train("2026-11-21").extra["published"] == 1
    _, planned = night.plan(date="2026-11-20")
    assert planned.publish is not None
    assert (planned.publish.outcome, planned.publish.version) == ("newer stands", 1)
    assert planned.publish.standing_date == "2026-11-21"
    assert planned.champion is not None
    assert (planned.champion.version, planned.champion.run_id) == (1, "2026-11-21")
    assert night.train("2026-11-20").extra["published"] is None
    again = night.plan(date="2026-11-22")[1].publish
    assert again is not None
    assert (again.outcome, again.version) == ("new", 2)


def test_it_is_said_whose_weights_a_run_begins_with(night: Night1) -> None:
    night.configure(publish={}, train={"init_from": "published"})
    code, planned = night.plan(date="2026-11-19")
    assert (code, planned.init_from) == (0, "")
    assert "train.init_from: published: no model of t is published: trains from scratch" in planned.known
    assert night.train("2026-11-19").extra["published"] == 1
    assert night.plan(date="2026-11-20")[1].init_from == "version 1"
    code, planned = night.plan("--set", "train.full_every=1d", date="2026-11-20")
    assert (code, planned.init_from) == (0, "")
    assert any("train.full_every: 1 d" in line for line in planned.known)
    code, planned = night.plan("--set", "train.init_from=run:2026-11-01", date="2026-11-20")
    assert (code, planned.problems[0].type) == (2, "ConfigError")
    assert planned.problems[0].message.startswith("train.init_from: run:2026-11-01: there is no run")


def test_a_run_without_id_or_day_belongs_to_nobody(night: Night1) -> None:
    code, planned = night.plan(date="")
    assert (code, planned.run.run_id, planned.run.owner) == (0, "", None)


def test_people_are_told_what_the_runs_before_say(night: Night1, capsys: pytest.CaptureFixture[str]) -> None:
    night.configure(publish={})
    result = night.train("2026-11-19")
    told = result.model_copy(update={"rows_trained": 4580, "seconds": {"train": 458.0, "publish": 20.0}})
    Path(result.path, "result.json").write_text(told.model_dump_json(), encoding="utf-8")
    lines = {}
    for seconds, in_time in (("5m", "all epochs are trained"), ("70s", "about 0.4 epochs are trained")):
        assert main(["plan", "c.yaml", "--date", "2026-11-20", "--set", f"train.max_seconds={seconds}", *HERE]) == 0
        shown = capsys.readouterr().out.splitlines()
        lines = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in shown if line.count("│") == 3}
        assert lines["time"].endswith(f"60 s reserved for the end; {in_time} by then")
    assert lines["before"].startswith(
        "runs 2026-11-19; 10 rows/s; train 8 min, publish 20 s; checkpoint 0.0 MB; model "
    )
    assert lines["expected"].startswith("43 s, of which training 23 s: until ")
    assert lines["updates"] == "at most 15: 15 an epoch, 1 epoch; 229 rows to train"
    assert lines["champion"].startswith("version 1, of 2026-11-19, run 2026-11-19")
    assert lines["publish"] == "as version 2, of 2026-11-20"
    assert lines["nodes"].startswith("1 of 2 slots on local[2], 2,048 MiB each; memory for ")
    assert main(["plan", "c.yaml", "--date", "2026-11-19", *HERE]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "the run is done: submitted again, it repeats its result (exit code 0)"
    )


@pytest.mark.parametrize("width", [80, 160])
def test_people_read_it_in_lines_that_fit(
    night: Night1, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    night.configure(publish={}, data={"checks": {"refuse": {"rows": [1000, 2000]}}})
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sparktf.runs.finding._PIPED_WIDTH", width)
    assert main(["plan", "c.yaml", "--date", "2026-11-20", *HERE]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "t / 2026-11-20" in text
    assert "229 rows, 0.0 MB; 5 files, 18 row groups, 1 shuffle block" in text
    assert "DataError: the data is refused: rows are 229, below 1000" in text
    assert lines[-1] == "submitted now, the run would end with exit code 3 (data refused)"


# --- YARN, by its REST API ---


class Manager(HTTPServer):
    """Answers as a ResourceManager does that has two hosts, one of them lost."""

    nodes: tuple[dict[str, Any], ...] = (
        {"nodeHostName": "dn1.example.org", "state": "RUNNING", "usedMemoryMB": 2048, "availMemoryMB": 10240,
         "usedVirtualCores": 1, "availableVirtualCores": 7},
        {"nodeHostName": "dn2.example.org", "state": "LOST", "usedMemoryMB": 0, "availMemoryMB": 0},
    )  # fmt: skip


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        nodes = Manager.nodes
        content = json.dumps({"nodes": {"node": nodes}} if self.path.endswith("/nodes") else {}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def manager(night: Night1, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Manager(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        write_yarn_site(tmp_path / "hadoop", f"127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "hadoop"))
        yield
        server.shutdown()
        thread.join()


def write_yarn_site(folder: Path, address: str) -> None:
    keys = {"webapp.address": address, "address": address}
    properties = "".join(
        f"<property><name>yarn.resourcemanager.{key}</name><value>{value}</value></property>"
        for key, value in keys.items()
    )
    folder.mkdir()
    (folder / "yarn-site.xml").write_text(f"<configuration>{properties}</configuration>", encoding="utf-8")


@pytest.mark.usefixtures("manager")
def test_what_yarn_has_is_held_against_what_the_gang_takes(night: Night1) -> None:
    code, planned = night.plan("--set", "cluster.workers=4", "--master", "yarn")
    room = planned.room
    assert room is not None, planned.problems
    assert (code, room.hosts, room.free_mib, room.memory_mib, room.free_vcores) == (0, 1, 10240, 12288, 7)
    # 1024 heap + 384 + 256 + 2048 for the trainer, 1024 + 384 + 512 for the driver, in steps of 1024.
    assert (room.node_mib, room.driver_mib, room.fits) == (4096, 2048, 2)
    assert planned.warnings[0].startswith("YARN has room for 2 of 4 executors now: the run waits for the others ")
    assert planned.locality is not None
    assert planned.locality.share is None


def test_a_resource_manager_that_is_away_is_the_clusters_fault(
    night: Night1, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as held:  # nobody listens
        held.bind(("127.0.0.1", 0))
        write_yarn_site(tmp_path / "hadoop", f"127.0.0.1:{held.getsockname()[1]}")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "hadoop"))
        code, planned = night.plan("--master", "yarn")
    assert (code, planned.problems[0].type) == (4, "ReservationError")
    assert planned.data.streams[0].rows == ROWS
