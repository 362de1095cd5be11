"""What every storage does, in folders with names of a real S3 server."""

from __future__ import annotations

import secrets

import pytest
from object_stores import S3Server
from storage_contract import StorageContract

from sparktf.errors import StorageError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems


@pytest.fixture
def server(s3_store: S3Server) -> S3Server:
    return s3_store


def systems_of(server: S3Server) -> FileSystems:
    return FileSystems(HadoopConf(properties=server.hadoop()))


def storage_of(server: S3Server) -> Storage:
    return systems_of(server).open_runs("s3a://bucket/x")


@pytest.fixture
def storage(server: S3Server) -> Storage:
    return storage_of(server)


@pytest.fixture
def root(storage: Storage) -> str:
    root = f"s3a://bucket/{secrets.token_hex(4)}"
    storage.keep_names(root)
    return root


class TestNamedStorage(StorageContract):
    """The contract."""

    def test_free_space_is_known(self, storage: Storage, root: str) -> None:
        with pytest.raises(StorageError, match="an object store does not tell what is free"):
            storage.free_nbytes(root)
