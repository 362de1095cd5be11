"""A real tracking server of MLflow's, from an environment of its own; and servers that are none."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import requests

_STARTS_S = 240.0
"""It makes the tables of its database first; on a busy machine that takes a while."""

Row = dict[str, Any]


class Seen(NamedTuple):
    """A run, as the server tells of it."""

    id: str
    status: str
    start_ms: int
    end_ms: int | None
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]


class MlflowServer:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def runs(self, experiment: str) -> list[Seen]:
        """Returns the runs of an experiment that are not deleted; none where there is no such experiment."""
        found = requests.get(f"{self.url}/api/2.0/mlflow/experiments/get-by-name?experiment_name={experiment}")
        if found.status_code == requests.codes.not_found:
            return []
        wanted = [found.json()["experiment"]["experiment_id"]]
        return [_seen(run) for run in self._post("runs/search", experiment_ids=wanted).get("runs", [])]

    def history(self, run: Seen, metric: str) -> list[tuple[int, float]]:
        """Returns all values of a metric, with their steps, in the order of these."""
        found = self._get("metrics/get-history", run_id=run.id, metric_key=metric)
        return sorted((value.get("step", 0), value["value"]) for value in found.get("metrics", []))

    def versions(self, model: str) -> list[Row]:
        """Returns the versions of a registered model, as the server tells of them."""
        rows: list[Row] = self._get("model-versions/search", filter=f"name='{model}'").get("model_versions", [])
        return rows

    def artifact(self, run: Seen, path: str) -> bytes:
        """Returns a file that was stored with a run."""
        answer = requests.get(f"{self.url}/get-artifact?run_uuid={run.id}&path={path}", timeout=60)
        assert answer.ok, answer.text
        return answer.content

    def _get(self, what: str, **parameters: Any) -> Row:
        return _content(requests.get(f"{self.url}/api/2.0/mlflow/{what}", parameters, timeout=60))

    def _post(self, what: str, **content: Any) -> Row:
        return _content(requests.post(f"{self.url}/api/2.0/mlflow/{what}", json=content, timeout=60))


@contextmanager
def mlflow_server(environment: Path, folder: Path) -> Iterator[MlflowServer]:
    """Starts one over a new database, and ends it with all that it has started.

    Args:
        environment: Where MLflow is installed.
        folder: Where everything is stored.
    """
    log = folder / "server.log"
    variables = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ALLOWED_HOST_ADDRESSED_ARTIFACT_SCHEMES": "hdfs",  # and not viewfs, say
    }
    command = [str(environment / "bin/mlflow"), "server", "--host", "127.0.0.1", "--port", "0", "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MLFLOW", "PYTEST_"))}
    with log.open("wb") as output:
        process = psutil.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=clean | variables, process_group=0
        )
    try:
        yield MlflowServer(_url(process, log))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
            os.killpg(process.pid, signal.SIGKILL)  # what did not end with it


def _url(process: psutil.Popen, log: Path) -> str:
    end_s = time.monotonic() + _STARTS_S
    while time.monotonic() < end_s and process.poll() is None:
        if found := re.search(r"running on (http://\S+)", log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"the tracking server did not start:\n{log.read_text(encoding='utf-8')}")


def _seen(run: Row) -> Seen:
    info, data = run["info"], run["data"]
    named = [{pair["key"]: pair["value"] for pair in data.get(what, [])} for what in ("params", "tags", "metrics")]
    return Seen(info["run_id"], info["status"], info["start_time"], info.get("end_time"), *named)


def _content(answer: requests.Response) -> Row:
    assert answer.ok, answer.text
    content: Row = answer.json()
    return content


@contextmanager
def nobody() -> Iterator[str]:
    """The address of a server that is away."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def silence() -> Iterator[str]:
    """The address of a server that takes calls, and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def failure() -> Iterator[str]:
    """The address of a server that fails."""

    class Failing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(500, "no database")

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
