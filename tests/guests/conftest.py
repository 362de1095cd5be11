"""What the tests share, since it takes seconds to start: a tracking server, and a run that has really trained."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from guests.mlflow_server import MlflowServer, mlflow_server
from pretend import unmeasured
from trainer import lake
from trainer.local_gang import LocalGang

from sparktf.config.job import JobConfig
from sparktf.nightly.night import Night
from sparktf.results.result import RunResult
from sparktf.storage.file_systems import FileSystems


class Trained(NamedTuple):
    """A run with all guests that there are.

    Attributes:
        told: Where its command has put what it got.
    """

    config: JobConfig
    result: RunResult
    said: str
    told: Path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """Its environment is what `make guests` makes."""
    with mlflow_server(Path(os.environ["MLFLOW_ENVIRONMENT"]), tmp_path_factory.mktemp("mlflow")) as running:
        yield running


@pytest.fixture(scope="session")
def trained(server: MlflowServer, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run of one real trainer, validated, published and registered; the environment names the server."""
    folder = tmp_path_factory.mktemp("trained")
    lake.write(folder / "lake", [300, 100])
    lake.write(folder / "held-out", [50], seed=1)
    told = folder / "told.json"
    guests: dict[str, Any] = {
        "mlflow": {"experiment": "real", "registered_model": "real"},
        "on_end": ["tee", str(told)],
    }
    config = lake.job(
        folder,
        "everything",
        data={**lake.EVERYTHING, "validation": {"path": str(folder / "held-out")}},
        params={"rows": 400, "flavour": "keras", "api_key": "hush"},
        train={"batch_size": 64, "epochs": 3, "early_stopping": {"patience": 5}},
        output={"path": str(folder / "runs"), **guests},
        publish={},
    )
    gang = LocalGang(config, 1)
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("MLFLOW_TRACKING_URI", server.url.replace("://", "://me:hunter2@"))
            result = gang.train(config, Night(FileSystems(), gang.clock, unmeasured))
    finally:
        gang.close()
    assert json.loads(told.read_bytes())["run_id"] == "run"
    return Trained(config, result, gang.output.getvalue(), told)
