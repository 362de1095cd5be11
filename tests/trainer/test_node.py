"""What a low-level `train(node)` is told of its place."""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trainer import lake
from trainer.failures import place_of, spec_of

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError


def test_workers_are_those_of_the_attempt(tmp_path: Path, elsewhere: ProcessPoolExecutor) -> None:
    config = lake.job(tmp_path, "loop", data=lake.NUMBERS_TO_LABEL, workers=3)
    assert elsewhere.submit(told, config, 1, tmp_path).result() == (0, 1, config.train.batch_size)


def test_there_are_workers_to_schedule_functions_on_only_under_parameter_servers(
    tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    config = lake.job(tmp_path, "loop", data=lake.NUMBERS_TO_LABEL)
    with pytest.raises(
        ModelContractError, match=r"node\.coordinator exists only under cluster\.strategy: parameter_server"
    ):
        elsewhere.submit(schedule, config, tmp_path).result()


def schedule(config: JobConfig, folder: Path) -> None:
    """Schedules nothing on a node that trains alone."""
    node(config, 1, folder).coordinator.schedule(print)


def told(config: JobConfig, nodes: int, folder: Path) -> tuple[int, int, int]:
    """Returns index, workers and batch size of the first node of so many."""
    first = node(config, nodes, folder)
    return first.index, first.workers, first.batch_size


def node(config: JobConfig, nodes: int, folder: Path) -> Any:
    """Returns the first node of so many."""
    training = importlib.import_module("sparktf.trainer.sync.training")
    module = importlib.import_module("sparktf.trainer.sync.trainer_node")
    return module.TrainerNode(training.member_of(place_of(spec_of(config, nodes), folder)))
