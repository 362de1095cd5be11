"""The note to MLflow on a run, at its beginning and at its end: made here, written by a process of its own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sparktf.config.job import JobConfig
from sparktf.config.load import show_config
from sparktf.config.yaml import leaves, load_yaml
from sparktf.errors import Verdict
from sparktf.hadoop import HadoopConf
from sparktf.message import Message
from sparktf.results.events import LogEntry, MetricsSeen
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.version import __version__

MlflowStatus = Literal["RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"]

_STRANGE = re.compile(r"[^\w\-. :/]", re.ASCII)
_KEY_LENGTH = 250
_PARAM_LENGTH = 6000
_TAG_LENGTH = 5000
"""MLflow's own limits."""

_STATUS: dict[Verdict, MlflowStatus] = {
    Verdict.DONE: "FINISHED",
    Verdict.GATED: "FINISHED",  # it has trained all right, and its metrics are worth a comparison
    Verdict.NOT_READY: "SCHEDULED",  # nothing is wrong: it comes again
}


class MetricNote(Message):
    """One value of a metric."""

    key: str
    value: float
    time_ms: int  # Since 1970
    step: int


class ModelNote(Message):
    """A model to register as a version."""

    name: str  # The registered model's
    folder: str  # Its published folder
    tags: dict[str, str]  # Of the version


class MlflowNote(Message):
    """The content of one run in MLflow."""

    tracking_uri: str | None
    experiment: str
    run: str  # Folder of the run, by which MLflow's run is found again
    name: str  # Its name for people
    status: MlflowStatus
    time_ms: int  # When the status began, since 1970
    tags: dict[str, str | None]  # None removes a tag
    params: dict[str, str]  # MLflow never changes one: existing values stay
    # All reported metrics in order; the writer skips those that MLflow has already
    metrics: tuple[MetricNote, ...] = ()
    figures: tuple[MetricNote, ...] = ()  # Of this submission, at its end
    model: ModelNote | None = None
    hadoop: HadoopConf = HadoopConf()  # Configuration by which the model's folder is found


def note_of_begin(config: JobConfig, rundir: RunDirectory, result: RunResult, now_s: float) -> MlflowNote:
    """Returns the note on a run that begins, or is taken up again."""
    return _note(config, rundir, result, now_s)


def note_of_end(
    config: JobConfig, rundir: RunDirectory, result: RunResult, events: Iterable[LogEntry], now_s: float
) -> MlflowNote:
    """Returns the note on a run that has a result, with all its events, of earlier submissions too."""
    return _note(config, rundir, result, now_s).model_copy(
        update={
            "status": status_of(result),
            "tags": _tags(rundir, result) | _tags_of_end(result),
            "metrics": tuple(metrics_by_epoch(events)),
            "figures": tuple(figures_of(result, now_s)),
            "model": _model(config, rundir, result),
        }
    )


def status_of(result: RunResult) -> MlflowStatus:
    """Returns MLflow's status for the end of a run."""
    return "KILLED" if result.is_interrupted else _STATUS.get(result.verdict, "FAILED")


def params_of(config: JobConfig) -> dict[str, str]:
    """Returns all settings by dotted key, without secrets."""
    shown: Mapping[str, Any] = load_yaml(show_config(config))
    return {_key(key): value[:_PARAM_LENGTH] for key, value in leaves(shown)}


def metrics_by_epoch(events: Iterable[LogEntry]) -> list[MetricNote]:
    """Returns the reported metrics, as `validation/auc`."""
    return [
        MetricNote(key=_key(f"{event.stream.value}/{name}"), value=value, time_ms=int(time_s * 1000), step=event.step)
        for time_s, event in events
        if isinstance(event, MetricsSeen)
        for name, value in event.values.items()
    ]


def figures_of(result: RunResult, now_s: float) -> list[MetricNote]:
    """Returns the figures of the whole run, and the metrics of the exported model, as `model/...`."""
    values: dict[str, float | None] = {
        f"model/{stream}/{name}": value
        for stream, named in result.metrics.items()
        for name, value in named.items()
        if result.model
    }
    train_s = result.seconds.get("train", 0.0)
    values |= {
        "run/rows": result.rows_trained,
        "run/epochs": result.epochs,
        "run/rows_per_second": result.rows_trained / train_s if train_s else None,
        "run/local_share": result.locality,
        "run/waiting_share": result.waiting_share,
        **{f"run/seconds/{phase}": seconds for phase, seconds in result.seconds.items()},
    }
    return [
        MetricNote(key=_key(key), value=value, time_ms=int(now_s * 1000), step=result.steps)
        for key, value in values.items()
        if value is not None
    ]


def _note(config: JobConfig, rundir: RunDirectory, result: RunResult, now_s: float) -> MlflowNote:
    mlflow = config.output.mlflow
    return MlflowNote(
        tracking_uri=mlflow.tracking_uri if mlflow else None,
        experiment=(mlflow.experiment if mlflow else None) or config.name,
        run=rundir.path,
        name=rundir.run,
        status="RUNNING",
        time_ms=int(now_s * 1000),
        tags=_tags(rundir, result) | dict.fromkeys(_OF_AN_END),
        params=params_of(config),
    )


_OF_AN_END = ("sparktf.verdict", "sparktf.cause", "sparktf.published", "sparktf.stopped")


def _tags(rundir: RunDirectory, result: RunResult) -> dict[str, str | None]:
    return {
        "mlflow.source.name": "sparktf",
        "mlflow.source.type": "JOB",
        "sparktf.name": rundir.name,
        "sparktf.run_id": rundir.run_id,
        "sparktf.date": result.date or None,
        "sparktf.application": result.application,
        "sparktf.version": __version__,
    }


def _tags_of_end(result: RunResult) -> dict[str, str | None]:
    published = result.extra.get("published")
    return {
        "sparktf.verdict": f"{int(result.verdict)} {result.verdict.name.lower().replace('_', ' ')}",
        "sparktf.cause": None if result.error is None else result.error.message[:_TAG_LENGTH],
        "sparktf.published": None if published is None else str(published),
        "sparktf.stopped": None if result.stopped is None else result.stopped.text[:_TAG_LENGTH],
    }


def _model(config: JobConfig, rundir: RunDirectory, result: RunResult) -> ModelNote | None:
    mlflow, published = config.output.mlflow, result.extra.get("published")
    if mlflow is None or mlflow.registered_model is None or published is None or result.verdict is not Verdict.DONE:
        return None
    return ModelNote(
        name=mlflow.registered_model,
        folder=f"{rundir.serving}/{published}",
        tags={"sparktf.run": rundir.path, "sparktf.published": str(published)},
    )


def _key(name: str) -> str:
    """Returns a name that MLflow accepts."""
    plain = _STRANGE.sub("_", name)[:_KEY_LENGTH].strip()
    return plain if posixpath.normpath(plain) == plain and not plain.startswith("/") else plain.replace("/", "_")
