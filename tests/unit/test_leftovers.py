"""What killed processes have left: who staged it, how old it is, and what is never touched."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sparktf.storage.leftovers import LEFT_S, NONCE, sweep
from sparktf.storage.local import LocalStorage

NAMES = re.compile(rf"_staged-.+-{NONCE}")
NOW_S = 1_800_000_000.0


def made(path: Path, *files: str, age_s: float) -> None:
    """Makes a folder with files, all of which were last written to so long ago."""
    path.mkdir(parents=True)
    for name in files:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("x", encoding="utf-8")
    for below in (*path.rglob("*"), path):
        os.utime(below, (NOW_S - age_s,) * 2)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_nobody_has_written_to_for_a_day_goes_also_where_it_is_empty_or_hidden(tmp_path: Path) -> None:
    made(tmp_path / "_staged-a-00000001", "part-0", age_s=LEFT_S + 60)
    made(tmp_path / "_staged-a-00000002", age_s=LEFT_S + 60)
    # A job of Spark's that was killed has left no more than this.
    made(tmp_path / "_staged-a-00000003", "_temporary/0/_temporary/attempt_1/part-0", age_s=LEFT_S + 60)
    found = sweep(LocalStorage(), str(tmp_path), NAMES, NOW_S)
    assert [Path(path).name for path in found] == [f"_staged-a-0000000{n}" for n in (1, 2, 3)]
    assert names(tmp_path) == []


def test_what_somebody_may_still_write_to_stays(tmp_path: Path) -> None:
    made(tmp_path / "_staged-a-00000001", "_temporary/0/part-0", age_s=LEFT_S + 60)
    os.utime(tmp_path / "_staged-a-00000001/_temporary/0/part-0", (NOW_S - 60,) * 2)
    made(tmp_path / "_staged-a-00000002", age_s=LEFT_S - 60)
    assert sweep(LocalStorage(), str(tmp_path), NAMES, NOW_S) == ()
    assert names(tmp_path) == ["_staged-a-00000001", "_staged-a-00000002"]


def test_no_other_name_is_touched_however_old_it_is(tmp_path: Path) -> None:
    kept = ["_staged-a", "_staged-a-1", "_staged-a-0000000g", "a_staged-a-00000001", "date=2026-11-20", "part-0"]
    for name in kept:
        made(tmp_path / name, "part-0", age_s=100 * LEFT_S)
    assert sweep(LocalStorage(), str(tmp_path), NAMES, NOW_S) == ()
    assert names(tmp_path) == sorted(kept)


def test_a_folder_that_is_not_there_has_nothing_in_it(tmp_path: Path) -> None:
    assert sweep(LocalStorage(), str(tmp_path / "none"), NAMES, NOW_S) == ()
