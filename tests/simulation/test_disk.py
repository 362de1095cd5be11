"""The simulated file system does what every `Storage` does."""

from __future__ import annotations

import time

import pytest
from simulation.disk import Disk, SimStorage
from storage_contract import StorageContract

from sparktf.storage.base import Storage


class TestDisk(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return SimStorage(Disk(time.time))

    @pytest.fixture
    def root(self, storage: Storage) -> str:
        storage.make_dirs("/runs")
        return "/runs"
