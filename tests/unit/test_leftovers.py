"""What killed processes have left under the names that they stage under."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sparktf.rundir import is_of_a_name
from sparktf.storage.base import OpenUpload
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.leftovers import LEFT_S, abort_left, is_staged_name, staged_name, sweep

NOW_S = 1.8e9


def age(path: Path, age_s: float) -> None:
    """Has a file or folder, and all that is in it, be of an age."""
    for found in (*path.rglob("*"), path):
        os.utime(found, (NOW_S - age_s,) * 2)


def make(path: Path, age_s: float, *files: str) -> None:
    path.mkdir()
    for file in files:
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_bytes(b"1")
    age(path, age_s)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("files", [(), ("part-0",), ("_temporary/0/part-0",)], ids=["empty", "whole", "half"])
def test_what_nobody_has_touched_for_a_day_goes_whatever_it_is_of(tmp_path: Path, files: tuple[str, ...]) -> None:
    make(tmp_path / "_scored-2026-11-20-0123abcd", LEFT_S + 1, *files)
    make(tmp_path / "_scored-2025-01-01-99999999", LEFT_S + 1, *files)
    make(tmp_path / "_scored-2026-11-20-4567abcd", LEFT_S - 1, *files)
    make(tmp_path / "date=2026-11-20", LEFT_S + 1, *files)
    gone = sweep(LocalStorage(), str(tmp_path), ("_scored-",), NOW_S)
    assert [path.rpartition("/")[2] for path in gone] == ["_scored-2025-01-01-99999999", "_scored-2026-11-20-0123abcd"]
    assert names(tmp_path) == ["_scored-2026-11-20-4567abcd", "date=2026-11-20"]


def test_one_file_that_still_grows_keeps_a_folder_also_where_spark_hides_it(tmp_path: Path) -> None:
    make(tmp_path / "_scored-0123abcd", LEFT_S + 1, "_temporary/0/part-0", "part-1")
    growing = tmp_path / "_scored-0123abcd" / "_temporary" / "0" / "part-0"
    os.utime(growing, (NOW_S, NOW_S))
    assert sweep(LocalStorage(), str(tmp_path), ("_scored-",), NOW_S) == ()
    assert growing.exists()


def test_a_folder_of_somebody_elses_that_only_begins_alike_stays(tmp_path: Path) -> None:
    for name in ("_scored-by-hand", "_scored-", "scored-0123abcd", "_scored-0123abcd-kept"):
        make(tmp_path / name, LEFT_S + 1, "part-0")
    assert sweep(LocalStorage(), str(tmp_path), ("_scored-",), NOW_S) == ()
    assert len(names(tmp_path)) == 4


def test_a_folder_that_is_not_there_has_nothing_left_in_it(tmp_path: Path) -> None:
    assert sweep(LocalStorage(), f"{tmp_path}/missing", ("_scored-",), NOW_S) == ()


def test_names_are_known_again_and_nobody_makes_one_twice() -> None:
    made = [staged_name("_index-", suffix=".html"), staged_name("_staged-", "2026-11-20"), staged_name("_put-")]
    assert all(is_staged_name(name, "_put-", "_index-", "_staged-") for name in made)
    assert not any(is_staged_name(name, "_other-") for name in made)
    assert staged_name("_put-") != staged_name("_put-")


class Uploading(LocalStorage):
    """A storage with uploads that have not ended, each with its age."""

    def __init__(self, ages_s: Sequence[tuple[str, float]]) -> None:
        super().__init__()
        self.left = [OpenUpload(path, "id", int((NOW_S - age_s) * 1000)) for path, age_s in ages_s]

    def uploads(self, folder: str) -> tuple[OpenUpload, ...]:
        return tuple(upload for upload in self.left if upload.path.startswith(f"{folder}/"))

    def abort(self, uploads: Sequence[OpenUpload]) -> None:
        for upload in uploads:
            self.left.remove(upload)


def test_uploads_of_ours_that_began_more_than_a_day_ago_end() -> None:
    files = ("r/checkpoints/_tmp/001-model/w~-0", "serving/14/w", "notes", "r/notes")
    storage = Uploading([(f"s3a://b/t/{file}", LEFT_S + age_s) for file in files for age_s in (1, -1)])
    storage.left.append(OpenUpload("s3a://b/t2/r/checkpoints/_tmp/001-model/w~-0", "id", 0))
    ended = abort_left(storage, "s3a://b/t", is_of_a_name, NOW_S)
    assert ended == ("s3a://b/t/r/checkpoints/_tmp/001-model/w~-0", "s3a://b/t/serving/14/w")
    assert len(storage.left) == 7


@pytest.mark.parametrize(
    ("path", "is_ours"),
    [
        ("r/checkpoints/_tmp/001-model/weights~0-1", True),
        ("r/logs/001-worker-0.log", True),
        ("r/_objects/plan/rows.parquet~-0", True),
        ("r/_plan-0123abcd/rows.parquet", True),
        ("serving/_objects/CURRENT~-0", True),
        ("serving/_staged-r-0123abcd/variables~-0", True),
        ("serving/14/variables/variables", True),
        ("serving/mine/variables", False),
        ("serving/_staged-by-hand/variables", False),
        ("_elsewhere/checkpoints/x", False),
        ("r/mine", False),
        ("r/mine/checkpoints/x", False),
        ("index.html", False),
        ("r", False),
    ],
)
def test_what_is_written_below_a_names_folder_by_us_alone(path: str, is_ours: bool) -> None:
    assert is_of_a_name(path) == is_ours
