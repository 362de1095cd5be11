"""MLflow beside a run, on a real tracking server: `make guests`."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guests.conftest import Trained
from guests.mlflow_server import MlflowServer, Seen, failure, nobody, silence
from lakes import no_filter, write_lake
from pretend import PretendDriver, pretend_config, unmeasured
from trainer.local_gang import PROCESSES, keep_files_in

from sparktf.config.job import JobConfig
from sparktf.driver.plan.planner import plan_source
from sparktf.errors import NodeLostError, Verdict
from sparktf.nightly import mlflow_writer
from sparktf.nightly.mlflow_note import MlflowNote, ModelNote, note_of_begin
from sparktf.nightly.night import Night
from sparktf.redaction import REDACTED
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import FileEntry
from sparktf.storage.file_systems import FileSystems, open_storage
from sparktf.storage.local import LocalStorage

pytestmark = pytest.mark.timeout(300)

WRITER = (sys.executable, "-m", "sparktf.nightly.mlflow_writer")

PASSWORD = "://me:hunter2@"


class FolderOfAnotherCluster(LocalStorage):
    """A folder of this machine, as a cluster's."""

    def __init__(self, there: str, here: str) -> None:
        super().__init__()
        self._there, self._here = there, here

    def list(self, path: str) -> tuple[FileEntry, ...]:
        found = super().list(path.replace(self._there, self._here))
        return tuple(entry._replace(path=entry.path.replace(self._here, self._there)) for entry in found)

    def download(self, path: str, local: Path) -> None:
        super().download(path.replace(self._there, self._here), local)


class KilledError(BaseException):
    """Stands for kill -9: nobody catches it."""


class Place:
    """A lake, and runs of it that are pretended."""

    def __init__(self, folder: Path, uri: str | None) -> None:
        self.config = pretend_config(
            write_lake(folder / "lake", [40]),
            folder / "runs",
            name=folder.name,
            params={"units": 8, "api_key": "hush"},
            output={"path": str(folder / "runs"), "mlflow": {"tracking_uri": uri}},
        )

    def set(self, **sections: Any) -> JobConfig:
        """Returns the configuration with other sections."""
        return JobConfig.model_validate({**self.config.model_dump(exclude_unset=True), **sections})

    def driver(self, application: str, config: JobConfig | None = None) -> PretendDriver:
        config = config or self.config
        driver = PretendDriver(Application(application), config, plan_source(config, open_storage, no_filter))
        driver.hooks = Night(FileSystems(), driver.site.clock, unmeasured)
        return driver


@pytest.fixture
def place(tmp_path: Path, server: MlflowServer) -> Place:
    return Place(tmp_path, server.url)


def only_run(server: MlflowServer, place: Place) -> Seen:
    (run,) = server.runs(place.config.name)
    return run


def note_of(place: Place) -> MlflowNote:
    rundir = RunDirectory(place.config.output.path, place.config.name, "r")
    result = RunResult(run_id="r", name=rundir.name, verdict=Verdict.INFRASTRUCTURE)
    return note_of_begin(place.config, rundir, result, time.time())


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Callable[[MlflowNote], None]:
    """Writes a note as the writer's process does, without another start of MLflow's client."""
    for name, value in mlflow_writer.DEFAULTS.items():
        monkeypatch.setenv(name, value)
    from mlflow import MlflowClient  # reads its environment when imported

    def write(note: MlflowNote) -> None:
        mlflow_writer.MlflowWriter(MlflowClient(note.tracking_uri, note.tracking_uri), note).write()

    return write


def eventually(found: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        if found():
            return True
        time.sleep(0.1)
    return False


def test_a_real_run_appears_once_with_all_that_people_compare(server: MlflowServer, trained: Trained) -> None:
    (run,), result = server.runs("real"), trained.result
    assert (run.status, run.tags["mlflow.runName"]) == ("FINISHED", "job/run")
    assert run.tags["sparktf.verdict"] == "0 done"
    assert run.tags["sparktf.run"] == result.path
    assert "sparktf.cause" not in run.tags
    assert (run.params["train.epochs"], run.params["params.rows"]) == ("3", "400")
    assert run.params["params.api_key"] == REDACTED
    by_epoch = [(evaluation.step, evaluation.values["loss"]) for evaluation in result.validation]
    assert server.history(run, "validation/loss") == by_epoch
    assert [step for step, _ in server.history(run, "train/loss")] == [7, 14, 21]
    assert run.metrics["model/validation/loss"] == pytest.approx(result.metrics["validation"]["loss"])
    assert run.metrics["run/rows"] == 3 * 400
    assert run.metrics["run/rows_per_second"] > 0
    assert f"{server.url}/#/experiments/" in trained.said
    assert not [line for line in trained.said.splitlines() if line.startswith("warning")]


def test_its_model_is_a_version_that_mlflow_loads(server: MlflowServer, trained: Trained, tmp_path: Path) -> None:
    (version,), (run,) = server.versions("real"), server.runs("real")
    assert version["run_id"] == run.id
    assert {"key": "sparktf.published", "value": "1"} in version["tags"]
    uri = f"models:/real/{version['version']}"
    with ProcessPoolExecutor(1, mp_context=PROCESSES, initializer=keep_files_in, initargs=(str(tmp_path),)) as pool:
        assert pool.submit(loaded, server.url, uri).result() == {"label": 3, "price": 3}


def loaded(server: str, uri: str) -> dict[str, int]:
    """Loads a model by MLflow, in a process that has TensorFlow; returns the rows of each output for three of input."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    mlflow = importlib.import_module("mlflow")
    mlflow.set_tracking_uri(server)
    model = mlflow.tensorflow.load_model(uri)
    rows = {"row": np.arange(3), "item": np.arange(3), "numbers": np.zeros((3, 4), "float32")}
    return {name: len(value) for name, value in model.signatures["serving_default"](**rows).items()}


def test_a_killed_run_that_is_submitted_again_is_still_one(server: MlflowServer, place: Place) -> None:
    killed = place.driver("first")
    killed.failures = 1

    def kill() -> None:
        if "attempt 1 of 3 failed" in killed.said.getvalue():
            raise KilledError
        act()

    act, killed.site.clock.passed = killed.site.clock.passed, kill
    with pytest.raises(KilledError):
        killed.train()
    assert eventually(lambda: any("timeouts.stop" in run.params for run in server.runs(place.config.name)))
    begun = only_run(server, place)
    assert (begun.status, begun.tags.get("sparktf.verdict")) == ("RUNNING", None)
    again = place.driver("second", place.set(timeouts={"stop": 3}))
    assert again.train().verdict is Verdict.DONE
    ended = only_run(server, place)
    assert (ended.id, ended.status, ended.start_ms) == (begun.id, "FINISHED", begun.start_ms)
    assert ended.tags["sparktf.application"] == "second"
    assert ended.params["timeouts.stop"] == begun.params["timeouts.stop"] == "5.0"  # MLflow never changes one
    assert ended.tags["sparktf.changed_params"] == "timeouts.stop=3.0"
    assert not server.versions(place.config.name)


def test_a_run_that_failed_says_why_until_it_is_done(server: MlflowServer, place: Place) -> None:
    config = place.set(train={"max_attempts": 1})
    failing = place.driver("first", config)
    failing.failures = 1
    with pytest.raises(NodeLostError):
        failing.train()
    failed = only_run(server, place)
    assert (failed.status, failed.tags["sparktf.verdict"]) == ("FAILED", "4 infrastructure")
    assert failed.tags["sparktf.cause"] == "lost"
    assert place.driver("second", config).train().verdict is Verdict.DONE
    done = only_run(server, place)
    assert (done.id, done.status, done.tags.get("sparktf.cause")) == (failed.id, "FINISHED", None)


def test_of_two_that_are_made_at_the_same_moment_one_is_left(
    server: MlflowServer, place: Place, write: Callable[[MlflowNote], None]
) -> None:
    note = note_of(place)
    writers = [subprocess.Popen(WRITER, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(2)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(note.model_dump_json().encode())
        writer.stdin.close()
    for writer in writers:
        writer.wait()
    write(note)
    assert only_run(server, place).status == "RUNNING"


def test_a_model_on_hdfs_is_registered_once_where_it_lies(
    server: MlflowServer, place: Place, write: Callable[[MlflowNote], None]
) -> None:
    model = ModelNote(
        name=place.config.name, folder="hdfs://nn/runs/churn/serving/14", tags={"sparktf.published": "14"}
    )
    note = note_of(place).model_copy(update={"model": model, "status": "FINISHED"})
    for _ in range(2):
        write(note)
    (version,) = server.versions(model.name)
    assert (version["source"], version["run_id"]) == (model.folder, only_run(server, place).id)


def test_a_model_that_the_server_takes_no_address_of_is_copied(
    server: MlflowServer, place: Place, write: Callable[[MlflowNote], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Path(place.config.output.path, "churn/serving/14")
    stored.mkdir(parents=True)
    (stored / "saved_model.pb").write_bytes(b"model")
    folder = "viewfs://nn/runs/churn/serving/14"
    model = ModelNote(name=place.config.name, folder=folder, tags={"sparktf.published": "14"})
    note = note_of(place).model_copy(update={"model": model, "status": "FINISHED"})
    elsewhere = FolderOfAnotherCluster("viewfs://nn/runs", place.config.output.path)
    monkeypatch.setattr(FileSystems, "open_runs", lambda *_: elsewhere)
    write(note)
    (version,) = server.versions(model.name)
    assert version["source"].endswith("/artifacts/model/14")
    assert server.artifact(only_run(server, place), "model/14/saved_model.pb") == b"model"


@pytest.mark.parametrize(
    ("absent", "limit_s", "cause"),
    [
        (nobody, 30, "ended with exit code 1: MlflowException: .*Connection refused"),
        (silence, 2, "was ended after 2 s"),
        pytest.param(
            *(failure, 30, "ended with exit code 1: MlflowException: .*500 error"),
            marks=pytest.mark.more("guests/test_mlflow.py::test_an_mlflow_that_is_away_changes_no_verdict"),
        ),
    ],
)
def test_an_mlflow_that_is_away_changes_no_verdict(
    absent: Callable[[], AbstractContextManager[str]],
    limit_s: float,
    cause: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the password in the address that the environment names is not said."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with absent() as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("://", PASSWORD))
        place = Place(tmp_path, None)
        driver = place.driver("a", place.set(timeouts={"mlflow": limit_s}))
        began_s = time.monotonic()
        result = driver.train()
        took_s = time.monotonic() - began_s
    assert result.verdict is Verdict.DONE
    said = " ".join(driver.said.getvalue().split())
    assert re.search(f"warning: output.mlflow: MLflow does not have all of the run: its client {cause}", said)
    assert said.count("warning: ") == 1  # not one for each time that it was asked
    assert took_s < 2 * limit_s + 60  # on a busy machine, too; one that did not end it would wait for ever
    assert_not_said("hunter2", driver.said.getvalue(), result)


def test_the_password_in_the_servers_address_is_not_said(server: MlflowServer, trained: Trained) -> None:
    assert f"MLflow: {server.url}/#/experiments/" in trained.said
    assert_not_said("hunter2", trained.said, trained.result)


def assert_not_said(secret: str, said: str, result: RunResult) -> None:
    """Neither to people, nor in what a run has stored of itself."""
    files = [path.read_text("utf-8") for path in Path(result.path).rglob("*.jsonl")]
    assert files
    assert secret not in "".join([said, result.model_dump_json(), *files])
