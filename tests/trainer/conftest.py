"""What the tests share, since it takes seconds to start: a gang, and a process that has TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from trainer import lake
from trainer.local_gang import PROCESSES, LocalGang, keep_files_in


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
