"""What the tests share, since it takes seconds to start: a gang, and a process that has TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from trainer import lake
from trainer.local_gang import PROCESSES, LocalGang


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    """A process that has TensorFlow, for what must not be in this one."""
    with ProcessPoolExecutor(1, mp_context=PROCESSES) as pool:
        yield pool


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalGang]:
    """A gang of up to three nodes."""
    any_job = lake.job(Path(tmp_path_factory.mktemp("none")), "everything", data=lake.EVERYTHING)
    gang = LocalGang(any_job, 3)
    yield gang
    gang.close()
