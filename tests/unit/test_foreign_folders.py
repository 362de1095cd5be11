"""Folders of somebody else's where a run is to be: nothing in them is changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, pretend_config, unmeasured

from sparktf.errors import PreflightError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.night import Night
from sparktf.results.result import Application
from sparktf.storage.file_systems import FileSystems


class Place:
    """A lake, in which runs of training `t` go, too."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "lake"
        self.run = self.root / "t" / "r"
        self._data = write_lake(folder / "data", [20])

    def driver(self, **output: object) -> PretendDriver:
        output = {"path": str(self.root), "history": True, "report": True, **output}
        config = pretend_config(self._data, self.root, output=output)
        driver = PretendDriver(Application("app"), config, plan_lake(self._data))
        driver.hooks = Night(FileSystems(), driver.site.clock, unmeasured)
        return driver

    def seen(self) -> dict[str, bytes | None]:
        """Returns all that lies below the lake."""
        below = sorted(self.root.rglob("*"))
        return {str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None for path in below}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    return Place(tmp_path)


def test_a_run_begins_with_a_stored_plan_alone_which_it_replays(place: Place) -> None:
    assert place.driver().train().verdict is Verdict.DONE
    plan = (place.run / "plan/files.parquet").read_bytes()
    shutil.move(place.run / "plan", place.root / "kept")
    shutil.rmtree(place.run)
    place.run.mkdir()
    shutil.move(place.root / "kept", place.run / "plan")
    assert place.driver().train().verdict is Verdict.DONE
    assert (place.run / "plan/files.parquet").read_bytes() == plan


def test_a_run_begins_where_one_that_was_refused_left_no_more_than_what_should_follow_its_result(place: Place) -> None:
    driver = place.driver()
    driver.refusal = PreflightError("too few slots")
    with pytest.raises(PreflightError):
        driver.train()
    (place.run / "result.json").unlink()
    assert "last_steps.json" in os.listdir(place.run)
    assert "owner" not in os.listdir(place.run)
    for name in set(os.listdir(place.run)) - {"last_steps.json"}:
        (place.run / name).unlink()
    assert place.driver().train().verdict is Verdict.DONE


@pytest.mark.parametrize(
    "entries",
    [
        ("model/weights",),
        ("part-0.parquet",),
        ("logs/2026.log", "plan/manifest"),
        ("result.json",),
        ("plan/spec.json",),
        ("last_steps.json",),
        ("_temporary/0/part-0",),
    ],
)
@pytest.mark.parametrize("refused", [False, True], ids=["", "refused by preflight"])
def test_a_run_does_not_begin_in_a_folder_that_somebody_else_has_filled(
    place: Place, entries: tuple[str, ...], refused: bool
) -> None:
    for entry in entries:
        (place.run / entry).parent.mkdir(parents=True, exist_ok=True)
        (place.run / entry).write_text("{}", encoding="utf-8")
    before = place.seen()
    driver = place.driver()
    driver.refusal = PreflightError("too few slots") if refused else None
    name = sorted(entries)[0].partition("/")[0]
    with pytest.raises(PreflightError, match=f"t/r is not empty, but holds no run, only {name}") as raised:
        driver.train()
    assert raised.value.verdict is Verdict.REFUSED
    assert place.seen() == before


@pytest.mark.parametrize(
    "entry", ["", ".tmp-0123456789abcdef/1", "_commit-000-0-0123abcd/x", ".probe-0123456789abcdef"]
)
def test_it_does_in_one_that_is_empty_or_that_another_driver_has_only_just_made(place: Place, entry: str) -> None:
    place.run.mkdir(parents=True)
    if entry:
        (place.run / entry).parent.mkdir(exist_ok=True)
        (place.run / entry).write_bytes(b"")
    assert place.driver().train().verdict is Verdict.DONE


def test_and_in_that_of_a_submission_which_was_refused(place: Place) -> None:
    refused = place.driver()
    refused.refusal = PreflightError("too few slots")
    with pytest.raises(PreflightError, match="too few slots"):
        refused.train()
    assert (place.run / "report.html").exists()
    assert place.driver().train().verdict is Verdict.DONE


def test_the_result_of_a_run_whose_folder_was_copied_is_not_repeated_as_another_ones(place: Place) -> None:
    place.driver().train()
    os.rename(place.run, place.run.with_name("copied"))
    driver = place.driver()
    driver.run_id = "copied"
    with pytest.raises(PreflightError, match=r"result\.json is the result of t/r, not of t/copied"):
        driver.train()
