"""What every storage does, in folders with names of real servers of stores."""

from __future__ import annotations

import secrets

import pytest
from object_stores import StoreServer
from storage_contract import StorageContract

from sparktf.errors import StorageError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems


def systems_of(server: StoreServer) -> FileSystems:
    return FileSystems(HadoopConf(properties=server.hadoop()))


def storage_of(server: StoreServer) -> Storage:
    return systems_of(server).open_runs(f"{server.root}/x")


@pytest.fixture
def storage(server: StoreServer) -> Storage:
    return storage_of(server)


@pytest.fixture
def root(server: StoreServer, storage: Storage) -> str:
    root = f"{server.root}/{secrets.token_hex(4)}"
    storage.keep_names(root)
    return root


class TestNamedStorage(StorageContract):
    """The contract."""

    def test_free_space_is_known(self, storage: Storage, root: str) -> None:
        with pytest.raises(StorageError, match="an object store does not tell what is free"):
            storage.free_nbytes(root)
