"""Uploads in parts that a killed process has left in a real S3 server: the next run ends its own, and no stranger's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from contenders import Contender
from object_stores import S3Server, begin_upload

from sparktf.errors import FencedOffError
from sparktf.hadoop import HadoopConf
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems

NBYTES = 1 << 30

UPLOADS = """
import json, sys
from pathlib import Path
from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems
properties, local, path = sys.argv[1:]
FileSystems(HadoopConf(properties=json.loads(properties))).open_runs(path).upload_as(Path(local), path, "0" * 64)
"""


@pytest.fixture
def storage(s3_store: S3Server) -> Storage:
    return FileSystems(HadoopConf(properties=s3_store.hadoop())).open_runs("s3a://bucket/x")


def leave_upload(server: S3Server, storage: Storage, path: str, local: Path) -> None:
    """Kills a process in the middle of an upload to a path, whose object's name begins with it."""
    command = [sys.executable, "-c", UPLOADS, json.dumps(server.hadoop()), str(local), path]
    process = subprocess.Popen(command)
    above = path.rpartition("/")[0]
    until_s = time.monotonic() + 60
    try:
        while not any(upload.path.startswith(path) for upload in storage.uploads(above)):
            assert process.poll() is None and time.monotonic() < until_s
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(NBYTES)
    return path


def left_in(storage: Storage, folder: str) -> list[str]:
    return [upload.path.removeprefix("s3a://bucket/") for upload in storage.uploads(folder)]


def test_the_next_driver_of_a_run_ends_what_a_killed_trainer_was_uploading_and_nothing_else(
    s3_store: S3Server, storage: Storage, local: Path
) -> None:
    rundir = RunDirectory("s3a://bucket/left", "t", "r")
    killed = Contender("killed", storage, rundir)
    killed.begin()
    leave_upload(s3_store, storage, f"{rundir.staged(1, 'step-000000000100')}/weights", local)
    strangers = ["left/notes", "left/t/notes", "left/t/r/notes", "left/t/r2/checkpoints/_tmp/001-model/weights", "x"]
    for key in strangers:
        begin_upload(s3_store, key)

    killed.owner.release()
    later = Contender("later", storage, rundir)
    later.begin()
    assert len(left_in(storage, rundir.staging)) == 1
    later.end()
    assert left_in(storage, rundir.staging) == []
    assert set(left_in(storage, "s3a://bucket")) >= set(strangers)


def test_a_driver_whose_run_has_a_newer_owner_ends_no_upload(s3_store: S3Server, storage: Storage) -> None:
    rundir = RunDirectory("s3a://bucket/newer", "t", "r")
    frozen, later = Contender("frozen", storage, rundir), Contender("later", storage, rundir)
    frozen.begin()
    frozen.owner.release()
    later.begin()
    begin_upload(s3_store, "newer/t/r/checkpoints/_tmp/002-model/weights")
    with pytest.raises(FencedOffError):
        frozen.fence.tidy()
    assert len(left_in(storage, rundir.path)) == 1


def test_a_store_that_does_not_list_them_is_told_of_once(s3_store: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    properties = s3_store.hadoop() | {"fs.s3a.bucket.refused.secret.key": "another"}
    systems = FileSystems(HadoopConf(properties=properties))
    for _ in range(2):
        assert systems.open_runs("s3a://refused/x").uploads("s3a://refused/x") == ()
    [record] = caplog.records
    assert record.message.startswith("s3a://refused: uploads that killed processes have left unfinished there are not")
    assert "SignatureDoesNotMatch" in record.message
