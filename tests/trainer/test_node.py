"""What a low-level `train(node)` is told of its place."""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from trainer import lake
from trainer.failures import place_of, spec_of

from sparktf.config.job import JobConfig


def test_workers_are_those_of_the_attempt(tmp_path: Path, elsewhere: ProcessPoolExecutor) -> None:
    config = lake.job(tmp_path, "loop", data=lake.NUMBERS_TO_LABEL, workers=3)
    assert elsewhere.submit(told, config, 1, tmp_path).result() == (0, 1, config.train.batch_size)


def told(config: JobConfig, nodes: int, folder: Path) -> tuple[int, int, int]:
    """Returns index, workers and batch size of the first node of so many."""
    training = importlib.import_module("sparktf.trainer.sync.training")
    lowlevel = importlib.import_module("sparktf.trainer.sync.lowlevel")
    node = lowlevel.TrainerNode(training.member_of(place_of(spec_of(config, nodes), folder), mirrored=False))
    return node.index, node.workers, node.batch_size
