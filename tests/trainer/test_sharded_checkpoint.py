"""Checkpoints that parameter servers write and read, each what it holds."""

from __future__ import annotations

import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from split import only
from trainer import lake, sharding
from trainer.sharding import Servers, Variable, Written

from sparktf.config.job import JobConfig
from sparktf.wire.uploads import Uploaded

FLAVOURS = ("keras", "tf_keras")


VANISHED = "ckpt.data-00001-of-00010"


class Committed(NamedTuple):
    """A checkpoint of two servers, and another one of which a file has vanished.

    Attributes:
        path: Where the first is committed.
        uploads: What each server has told of it; `again` likewise, of the other one.
    """

    path: Path
    written: Written
    uploads: list[Uploaded]
    again: list[Uploaded]


def job(folder: Path) -> JobConfig:
    cluster = {"strategy": "parameter_server", "workers": 1, "ps": 1}
    return lake.job(folder, "everything", data=lake.EVERYTHING, cluster=cluster)


def commit(folder: Path, flavour: str) -> Committed:
    """Has two servers write both checkpoints, and commits the first as it came."""
    with Servers(job(folder), 2, folder) as servers:
        written = servers.run(sharding.write, flavour, folder / "own", VANISHED)
        uploads, again = servers.uploaded(), servers.uploaded()
    (staged,) = (folder / "runs/job/r/checkpoints/_tmp").glob(f"*{sharding.STEP}")
    for path in (folder / "own").iterdir():
        shutil.move(path, staged / path.name)
    return Committed(staged, written, uploads, again)


def checksums(variables: list[Variable]) -> list[int]:
    return [variable.checksum for variable in variables]


@pytest.fixture(scope="module", params=only("keras", of=FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def committed(flavour: str, tmp_path_factory: pytest.TempPathFactory) -> Committed:
    return commit(tmp_path_factory.mktemp(flavour), flavour)


class Alone(NamedTuple):
    """A checkpoint that one process has written, without servers.

    Attributes:
        path: Where it is.
        variables: What is in it.
    """

    path: Path
    variables: list[Variable]


@pytest.fixture(scope="module")
def alone(flavour: str, tmp_path_factory: pytest.TempPathFactory, elsewhere: ProcessPoolExecutor) -> Alone:
    path = tmp_path_factory.mktemp(flavour) / "alone"
    return Alone(path, elsewhere.submit(sharding.write_alone, flavour, path).result())


def test_each_server_writes_and_uploads_what_it_holds_and_the_coordinator_none_of_it(committed: Committed) -> None:
    written, uploads = committed.written, committed.uploads
    held = [sum(v.nbytes for v in written.variables if f"/job:ps/replica:0/task:{i}/" in v.device) for i in range(2)]
    assert sum(held) == sum(v.nbytes for v in written.variables)
    assert min(held) > 50e6
    assert [sum(file.nbytes for file in upload.files) for upload in uploads] == held
    assert all(file.nbytes <= 32 << 20 for upload in uploads for file in upload.files)
    assert not any((upload.error, upload.done) != ("", ()) for upload in uploads)
    assert {(upload.step, upload.epoch, upload.keras) for upload in uploads} == {(7, 1, "keras")}
    assert sorted(written.others) == sorted(file.name for upload in uploads for file in upload.files)
    assert written.settled == ""
    own = {path.name: path.stat().st_size for path in committed.path.iterdir() if path.name not in written.others}
    assert sorted(own) == ["ckpt.data-00000-of-00010", "ckpt.index", "contents.json"]
    assert sum(own.values()) < 100_000
    assert written.grown_mib < 32


def test_a_function_finds_the_handles_of_variables_on_the_servers_and_captures_none(committed: Committed) -> None:
    assert committed.written.bare == [checksum + 1 for checksum in checksums(committed.written.variables)]
    assert committed.written.captured == 0


@pytest.mark.parametrize("ps", [1, 3])
def test_other_numbers_of_servers_go_on_from_it_and_from_what_one_process_has_written(
    ps: int, flavour: str, committed: Committed, alone: Alone, tmp_path: Path
) -> None:
    found = [(committed.path, committed.written.variables), alone]
    if ps == 1:
        found.reverse()  # each follows the other once
    with Servers(job(tmp_path), ps, tmp_path) as servers:
        restored = servers.run(sharding.restore, flavour, [path for path, _ in found], tmp_path / "work")
        assert not [*tmp_path.glob("**/ckpt*")], "what was fetched is still on a disk"
    assert [checksums(variables) for variables in restored] == [checksums(variables) for _, variables in found]
    assert len({variable.device for variable in restored[0]}) == ps


def test_a_process_without_servers_reads_it_as_any_checkpoint(
    flavour: str, committed: Committed, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    restored = elsewhere.submit(sharding.restore_alone, flavour, committed.path, tmp_path / "work").result()
    assert checksums(restored) == checksums(committed.written.variables)


def test_a_checkpoint_with_a_file_that_was_cut_short_is_no_error_of_the_model(
    flavour: str, committed: Committed, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    paths = []
    for kind in ("contents.json", "ckpt.index", "ckpt.data*"):
        path = tmp_path / kind.strip("*")
        path.mkdir()
        paths.append(path)
        for file in committed.path.iterdir():
            (path / file.name).hardlink_to(file)
        cut = max(path.glob(kind), key=lambda file: file.stat().st_size)
        cut.unlink()
        cut.write_bytes((committed.path / cut.name).read_bytes()[:40])
    said = elsewhere.submit(sharding.refused, flavour, paths, tmp_path / "work").result()
    for path, text in zip(paths, said, strict=True):
        assert text.startswith(f"cannot restore {path}, a file of it may be damaged: ")


def test_weights_are_read_without_slots(
    flavour: str, committed: Committed, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    restored, fetched = elsewhere.submit(sharding.restore_weights, flavour, committed.path, tmp_path / "work").result()
    assert checksums(restored) == checksums(committed.written.variables)[: len(restored)]
    assert fetched < sum(variable.nbytes for variable in restored) + 100_000


def test_a_file_that_was_not_written_or_is_too_short_is_refused(tmp_path: Path, elsewhere: ProcessPoolExecutor) -> None:
    def check(*nbytes: int) -> list[str]:
        return elsewhere.submit(sharding.check, job(tmp_path), tmp_path / "ps", nbytes).result()

    assert check(8) == ["", "part-1"]
    assert check(9)[0].endswith("shard/1.data-00000-of-00001 has 8 bytes, expected 9")
    said, *left = check(8, 8)
    assert said.startswith("[Errno 2] No such file or directory")
    assert said.endswith("shard/2.data-00000-of-00001'")
    assert left == ["part-1"]


def test_a_server_whose_file_has_vanished_says_so(committed: Committed) -> None:
    first, second = committed.again
    assert first.error.startswith(f"ps 0: {VANISHED} vanished from ")
    assert first.files == ()
    assert (second.error, VANISHED in committed.written.others) == ("", True)
    assert committed.written.settled_again.startswith(f"ps 0: {VANISHED} vanished from ")
