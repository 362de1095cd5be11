"""What killed processes have left under the names that they stage under."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.leftovers import LEFT_S, is_staged_name, staged_name, sweep

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
