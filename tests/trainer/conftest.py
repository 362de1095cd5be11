"""What the tests share, since it takes seconds to start: a gang, and a process that has TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from integration.processes import command_of, wait_for
from trainer import lake
from trainer.local_gang import PROCESSES, LocalGang, keep_files_in

from sparktf.executor.forking import Nursery
from sparktf.executor.trainer_process import trainer_environment


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    """A process that has TensorFlow, for what must not be in this one."""
    folder = str(tmp_path_factory.mktemp("elsewhere"))
    with ProcessPoolExecutor(1, mp_context=PROCESSES, initializer=keep_files_in, initargs=(folder,)) as pool:
        yield pool


@pytest.fixture(scope="session")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalGang]:
    """A gang of up to five nodes: a coordinator with three workers and a parameter server, or two of each."""
    any_job = lake.job(Path(tmp_path_factory.mktemp("none")), "everything", data=lake.EVERYTHING)
    gang = LocalGang(any_job, 5)
    yield gang
    gang.close()


class OwnNursery(NamedTuple):
    """A nursery that was started as agents start one, for those who need no gang; it has imported TensorFlow.

    Attributes:
        place: Where trainers find it.
    """

    server: Nursery
    place: str
    process: psutil.Process


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNursery]:
    """See `OwnNursery`."""
    base = tmp_path_factory.mktemp("agent")
    server = Nursery(base, trainer_environment(base))
    try:
        wait_for("the imports", lambda: not server.is_importing(), within_s=120)
        (place,) = map(str, base.glob("nursery-*"))
        (process,) = (child for child in psutil.Process().children() if place in command_of(child))
        yield OwnNursery(server, place, process)
    finally:
        server.close()
