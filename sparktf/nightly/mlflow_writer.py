"""Writes a note into MLflow, in a process of its own: MLflow's client may hang, and is imported nowhere else.

Reads an `MlflowNote` from its standard input. The last line of its output is the run's address, or the failure.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from sparktf.nightly.mlflow_note import MetricNote, MlflowNote, ModelNote
from sparktf.storage.base import name_of
from sparktf.storage.credentials import login_name
from sparktf.storage.file_systems import FileSystems
from sparktf.told import told, words_of_error

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

RUN = "sparktf.run"
"""The tag by which MLflow's run is found."""

_METRICS = "sparktf.metrics"
"""The tag with the number of metrics written: another submission of the run does not write them twice."""

_CHANGED = "sparktf.changed_params"
_BATCH = 100
"""The most parameters, or tags, that MLflow takes at once; we have fewer tags."""

_BATCH_OF_METRICS = 1000
_WORTH_KNOWING = 500

DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Defaults of the environment: MLflow's own would wait for a server that hangs for many minutes."""

_T = TypeVar("_T")


class MlflowWriter:
    """MLflow's run of one run of ours."""

    def __init__(self, client: MlflowClient, note: MlflowNote) -> None:
        self._client = client
        self._note = note
        self._experiment = self._find_experiment()

    def write(self) -> str:
        """Writes the whole note; returns MLflow's id of the run. A repeated call writes the rest."""
        note, client = self._note, self._client
        run = self._find_run()
        run_id: str = run.info.run_id
        if note.status == "RUNNING":
            client.update_run(run_id, status="RUNNING")
        self._write_tags(run)
        self._write_params(run)
        self._write_metrics(run)
        if note.model is not None:
            self._register(run, note.model)
        if note.status != "RUNNING":  # last of all: once it is seen, the rest is there
            client.set_terminated(run_id, note.status, note.time_ms)
        return run_id

    def url(self, run_id: str) -> str:
        """Returns the address for people, without credentials."""
        server = urlsplit(self._client.tracking_uri)
        server = server._replace(netloc=server.netloc.rpartition("@")[2])
        return f"{server.geturl()}/#/experiments/{self._experiment}/runs/{run_id}"

    def _find_experiment(self) -> str:
        from mlflow.exceptions import MlflowException  # noqa: PLC0415 - see the module

        name = self._note.experiment
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                made: str = self._client.create_experiment(name)
                return made
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self._client.get_experiment_by_name(name)  # another run has made it at the same moment
                if found is None:
                    raise
        return str(found.experiment_id)

    def _find_run(self) -> Run:
        """Returns the run, made if there is none; keeps the first of several, and deletes the others.

        A driver that was frozen may make a second one after its successor has: the next writer repairs that.
        """
        runs = self._runs()
        if not runs:
            tags = {RUN: self._note.run, "mlflow.user": login_name()}
            self._client.create_run(self._experiment, self._note.time_ms, tags, self._note.name)
            runs = self._runs()
        for run in runs[1:]:
            self._client.delete_run(run.info.run_id)
        return runs[0]

    def _runs(self) -> list[Run]:
        quote = '"' if "'" in self._note.run else "'"
        of_ours = f"tags.`{RUN}` = {quote}{self._note.run}{quote}"
        runs = self._client.search_runs([self._experiment], of_ours)
        return sorted(runs, key=lambda run: (run.info.start_time, run.info.run_id))

    def _write_tags(self, run: Run) -> None:
        from mlflow.entities import RunTag  # noqa: PLC0415

        for key, value in self._note.tags.items():
            if value is None and key in run.data.tags:
                self._client.delete_tag(run.info.run_id, key)
        tags = [RunTag(key, value) for key, value in self._note.tags.items() if value is not None]
        self._client.log_batch(run.info.run_id, tags=tags)

    def _write_params(self, run: Run) -> None:
        from mlflow.entities import Param  # noqa: PLC0415

        has: dict[str, str] = run.data.params
        new = {key: value for key, value in self._note.params.items() if key not in has}
        for params in _batches(new.items(), _BATCH):
            self._client.log_batch(run.info.run_id, params=[Param(*param) for param in params])
        changed = {key: value for key, value in self._note.params.items() if has.get(key, value) != value}
        if changed:
            words = ", ".join(f"{key}={value}" for key, value in changed.items())
            self._client.set_tag(run.info.run_id, _CHANGED, words[:_WORTH_KNOWING])
        elif _CHANGED in run.data.tags:
            self._client.delete_tag(run.info.run_id, _CHANGED)

    def _write_metrics(self, run: Run) -> None:
        from mlflow.entities import Metric  # noqa: PLC0415

        note, run_id, written = self._note, run.info.run_id, int(run.data.tags.get(_METRICS, 0))
        for metrics in _batches((*note.metrics[written:], *note.figures), _BATCH_OF_METRICS):
            self._client.log_batch(run_id, metrics=[Metric(*_fields(metric)) for metric in metrics])
        if len(note.metrics) > written:
            self._client.set_tag(run_id, _METRICS, str(len(note.metrics)))

    def _register(self, run: Run, model: ModelNote) -> None:
        """Makes a version in the registry: of the published folder, or of a copy if the server refuses that."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        found = self._client.search_model_versions(f"run_id = '{run.info.run_id}'")
        if any(version.name == model.name and model.tags.items() <= version.tags.items() for version in found):
            return
        try:
            self._client.create_registered_model(model.name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        if urlsplit(model.folder).scheme not in ("", "file"):
            try:
                self._make_version(run, model, model.folder)
            except MlflowException as error:  # by default a server takes HDFS for a way into its network
                if error.error_code != "INVALID_PARAMETER_VALUE":
                    raise
            else:
                return
        self._make_version(run, model, self._copy(run, model.folder))

    def _make_version(self, run: Run, model: ModelNote, source: str) -> None:
        self._client.create_model_version(model.name, source, run.info.run_id, model.tags, await_creation_for=0)

    def _copy(self, run: Run, folder: str) -> str:
        """Copies a published folder to the run's artifacts; returns its path there."""
        storage, place = FileSystems(self._note.hadoop).open_runs(folder), f"model/{name_of(folder)}"
        with tempfile.TemporaryDirectory(prefix="sparktf-mlflow-") as aside:
            for entry in storage.walk(folder):
                storage.download(entry.path, Path(aside, entry.path.removeprefix(folder).lstrip("/")))
            self._client.log_artifacts(run.info.run_id, aside, place)
        return f"{run.info.artifact_uri}/{place}"


def _fields(metric: MetricNote) -> tuple[str, float, int, int]:
    return metric.key, metric.value, metric.time_ms, metric.step


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def main() -> int:
    """Writes the note; returns the exit code."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient  # noqa: PLC0415
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed: pip install mlflow-skinny where the driver runs")
        return 1
    try:
        note = MlflowNote.model_validate_json(sys.stdin.buffer.read())
        uri = note.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
        if uri is None:
            print("no tracking server is named: set output.mlflow.tracking_uri, or MLFLOW_TRACKING_URI for the driver")
            return 1
        writer = MlflowWriter(MlflowClient(uri, uri), note)
        print(f"MLflow: {writer.url(writer.write())}")
    except Exception as error:  # noqa: BLE001 - the process's edge: its reader gets one line
        print(f"{type(error).__name__}: {told(_one_line(error))}")
        return 1
    return 0


def _one_line(error: BaseException) -> str:
    return " ".join(words_of_error(error).split())[:_WORTH_KNOWING]


if __name__ == "__main__":
    # MLflow's client imports it where it is installed, which takes a fifth of its start, and does without elsewhere.
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]
    sys.exit(main())
