"""What MLflow is told of a run: decided without MLflow."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from sparktf.config.job import JobConfig
from sparktf.config.load import parse_config, show_config
from sparktf.errors import ConfigError, ErrorRecord, RunInterruptedError, Verdict
from sparktf.nightly import mlflow_writer
from sparktf.nightly.mlflow_note import MlflowNote, note_of_begin, note_of_end, params_of, status_of
from sparktf.published.mlmodel import mlmodel_of
from sparktf.redaction import REDACTED
from sparktf.results.events import LineSaid, LogEntry, MetricsSeen
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.sequence import Stream
from sparktf.topology import NodeId, Role

RUNDIR = RunDirectory("hdfs://nn/runs", "churn", "2026-11-20")
NOW_S = 1.75e9

YAML = """
name: churn
model: churn:build
params: {units: 64, rates: [0.1, 0.2], api_key: hush, nothing: null}
data: {path: lake, inputs: {x: [a]}, targets: {y: label}}
train: {epochs: 3}
output:
  path: hdfs://nn/runs
  on_end: [notify, --token=hush, "https://me:hush@mail"]
  mlflow: {registered_model: churn}
publish: {}
submit: {conf: {spark.hadoop.fs.s3a.secret.key: hush, spark.ui.enabled: "false"}}
"""


@pytest.fixture
def config() -> JobConfig:
    return parse_config(YAML)


def result(verdict: Verdict = Verdict.DONE, error: str = "", **fields: Any) -> RunResult:
    record = ErrorRecord(type=error, message="why", verdict=verdict, time_s=0.0) if error else None
    return RunResult(
        run_id=RUNDIR.run_id, name=RUNDIR.name, verdict=verdict, error=record, application="application_1", **fields
    )


def seen(stream: Stream, epoch: int, **values: float) -> LogEntry:
    event = MetricsSeen(
        attempt=1,
        node=NodeId(role=Role.WORKER, index=0),
        stream=stream,
        epoch=epoch,
        step=10 * (epoch + 1),
        rows=5,
        values=values,
    )
    return LogEntry(NOW_S + epoch, event)


def note_at_end(config: JobConfig, ended: RunResult, *events: LogEntry) -> MlflowNote:
    return note_of_end(config, RUNDIR, ended, events, NOW_S)


def test_params_are_all_settings_and_no_secret(config: JobConfig) -> None:
    params = params_of(config)
    assert (params["params.units"], params["params.rates"], params["params.nothing"]) == ("64", "[0.1, 0.2]", "null")
    assert (params["train.epochs"], params["train.batch_size"], params["data.inputs.x.columns"]) == (
        "3",
        "256",
        '["a"]',
    )
    assert params["submit.conf.spark.hadoop.fs.s3a.secret.key"] == REDACTED
    assert "hush" not in str(params)
    assert "hush" not in show_config(config)


def test_names_are_such_as_mlflow_takes(config: JobConfig) -> None:
    odd = config.model_copy(update={"params": {"größe (cm)": 1, "a//b": 2, "/c": 3, "x" * 300: 4}})
    keys = {key.removeprefix("params.") for key in params_of(odd) if key.startswith("params.")}
    assert keys == {"gr__e _cm_", "a__b", "/c", "x" * (250 - len("params."))}


@pytest.mark.parametrize(
    ("verdict", "error", "status"),
    [
        (Verdict.DONE, "", "FINISHED"),
        (Verdict.GATED, "", "FINISHED"),
        (Verdict.NOT_READY, "NotReadyError", "SCHEDULED"),
        (Verdict.MODEL_FAILED, "ModelError", "FAILED"),
        (Verdict.REFUSED, "PreflightError", "FAILED"),
        (Verdict.DATA_REFUSED, "ColumnError", "FAILED"),
        (Verdict.INFRASTRUCTURE, "NodeLostError", "FAILED"),
        (Verdict.INFRASTRUCTURE, RunInterruptedError.__name__, "KILLED"),
    ],
)
def test_each_end_has_a_status_of_mlflows(verdict: Verdict, error: str, status: str) -> None:
    assert status_of(result(verdict, error)) == status


def test_at_its_beginning_a_run_is_known_and_earlier_ends_are_forgotten(config: JobConfig) -> None:
    note = note_of_begin(config, RUNDIR, result(), NOW_S)
    assert (note.experiment, note.run, note.name) == ("churn", "hdfs://nn/runs/churn/2026-11-20", "churn/2026-11-20")
    assert (note.status, note.time_ms) == ("RUNNING", 1_750_000_000_000)
    assert note.tags["sparktf.application"] == "application_1"
    assert [key for key, value in note.tags.items() if value is None and key != "sparktf.date"] == [
        "sparktf.verdict",
        "sparktf.cause",
        "sparktf.published",
        "sparktf.stopped",
    ]
    assert (note.metrics, note.figures, note.model) == ((), (), None)


def test_metrics_are_told_by_epoch_in_the_order_in_which_they_came(config: JobConfig) -> None:
    events = [
        seen(Stream.TRAIN, 0, loss=0.5),
        LogEntry(NOW_S, LineSaid(text="hello")),
        seen(Stream.VALIDATION, 0, auc=0.7, loss=0.6),
        seen(Stream.TRAIN, 1, loss=float("nan")),
    ]
    metrics = note_at_end(config, result(), *events).metrics
    assert [(m.key, m.step, m.time_ms) for m in metrics] == [
        ("train/loss", 10, 1_750_000_000_000),
        ("validation/auc", 10, 1_750_000_000_000),
        ("validation/loss", 10, 1_750_000_000_000),
        ("train/loss", 20, 1_750_000_001_000),
    ]
    assert metrics[3].value != metrics[3].value


def test_figures_are_those_of_the_model_and_of_the_run(config: JobConfig) -> None:
    ended = result(
        steps=20,
        epochs=2,
        rows_trained=1000,
        seconds={"plan": 1.0, "train": 4.0},
        metrics={"validation": {"auc": 0.7}},
        model="hdfs://nn/model",
    )
    figures = {figure.key: figure.value for figure in note_at_end(config, ended).figures}
    assert figures == {
        "model/validation/auc": 0.7,
        "run/rows": 1000,
        "run/epochs": 2,
        "run/rows_per_second": 250.0,
        "run/seconds/plan": 1.0,
        "run/seconds/train": 4.0,
    }
    without = result(Verdict.MODEL_FAILED, "ModelError", metrics={"validation": {"auc": 0.7}})
    assert {figure.key for figure in note_at_end(config, without).figures} == {"run/rows", "run/epochs"}


@pytest.mark.parametrize(
    ("verdict", "published", "folder"),
    [
        (Verdict.DONE, 14, "hdfs://nn/runs/churn/serving/14"),
        (Verdict.DONE, None, None),  # a later day's model is there
        (Verdict.GATED, None, None),
        (Verdict.MODEL_FAILED, None, None),
    ],
)
def test_a_published_model_is_registered_where_it_lies(
    config: JobConfig, verdict: Verdict, published: int | None, folder: str | None
) -> None:
    note = note_at_end(config, result(verdict, extra={"published": published}))
    assert (note.model and note.model.folder) == folder
    if note.model is not None:
        assert note.model.tags == {"sparktf.run": RUNDIR.path, "sparktf.published": "14"}
        assert note.tags["sparktf.published"] == "14"


def test_only_a_model_that_is_registered_says_how_mlflow_loads_it(config: JobConfig) -> None:
    assert mlmodel_of(config.model_dump())["flavors"]["tensorflow"]["saved_model_dir"] == "."
    assert mlmodel_of({"output": {"path": "x", "mlflow": {"experiment": "y"}}}) == {}
    assert mlmodel_of({}) == {}


@pytest.mark.parametrize("uri", ["https://me:hush@mlflow", "mlruns", "sqlite:///x.db", "databricks-uc"])
def test_an_address_that_is_no_server_or_has_a_password_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"output\.mlflow\.tracking_uri") as refused:
        parse_config(YAML, [f"output.mlflow.tracking_uri={uri}"])
    assert "hush" not in str(refused.value)


def test_a_model_that_is_not_published_cannot_be_registered() -> None:
    with pytest.raises(ConfigError, match=r"output\.mlflow\.registered_model needs published models: give publish"):
        parse_config(YAML.replace("publish: {}", ""))


def test_a_command_is_not_empty() -> None:
    with pytest.raises(ConfigError, match=r"output\.on_end"):
        parse_config(YAML, ["output.on_end=[]"])


def test_without_mlflow_or_a_server_one_line_says_what_to_do(
    config: JobConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    note = note_of_begin(config, RUNDIR, result(), NOW_S).model_dump_json().encode()
    for name in mlflow_writer.DEFAULTS:
        monkeypatch.setenv(name, "0")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(note)))
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert mlflow_writer.main() == 1
    assert capsys.readouterr().out == "mlflow is not installed: pip install mlflow-skinny where the driver runs\n"
    monkeypatch.setitem(sys.modules, "mlflow", type(sys)("mlflow"))
    monkeypatch.setattr(sys.modules["mlflow"], "MlflowClient", None, raising=False)
    assert mlflow_writer.main() == 1
    assert (
        "no tracking server is named: set output.mlflow.tracking_uri, or MLFLOW_TRACKING_URI for the driver"
        in capsys.readouterr().out
    )
