"""Whose weights a run begins with, and what becomes of that when it is resumed."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, pretend_config, unmeasured

from sparktf.config.job import JobConfig
from sparktf.config.load import parse_config
from sparktf.driver.plan.paths import normalised
from sparktf.errors import ConfigError, NodeLostError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.night import Night
from sparktf.nightly.warm_start import Beginning, beginning_of, decide, is_full_due
from sparktf.published.gated import FoundModel
from sparktf.published.serving import ModelManifest
from sparktf.results.carried import Carried, CarriedVariable
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems
from sparktf.wire.model_source import ModelSource
from sparktf.wire.uploads import StagedFile

DAY_S = 86_400.0
TODAY = dt.date(2026, 11, 20)
SOURCE = ModelSource(label="version 14", path="/m", files=("model.keras",))


# ---- when to train from scratch ----


@pytest.mark.parametrize(
    ("full", "day", "days", "due"),
    [
        ("2026-11-13", "2026-11-19", 7, False),
        ("2026-11-13", "2026-11-20", 7, True),
        ("2026-11-13", "2026-12-01", 7, True),
        ("2026-11-20", "2026-11-20", 1, False),
        ("2026-11-21", "2026-11-20", 1, False),
        ("2026-02-27", "2026-03-01", 2, True),
        ("2026-11-19", "2026-11-20", 1.5, False),
    ],
)
def test_a_chain_of_warm_starts_ends_by_the_dates_of_its_runs(full: str, day: str, days: float, due: bool) -> None:
    assert is_full_due(full, day, days * DAY_S) is due


def nights(count: int, every_s: float | None) -> list[str]:
    """Returns of each night on which day the weights were trained from scratch that its own go back to."""
    found: list[str] = []
    for number in range(count):
        day = str(dt.date(2026, 11, 1) + dt.timedelta(days=number))
        before = ModelSource(label="the one before", path="", files=(), full_date=found[-1] if found else "")
        source = decide(FoundModel(before, day), day, every_s).source if found else None
        found.append(source.full_date if source is not None else day)
    return found


def test_nights_in_a_row_train_from_scratch_as_often_as_they_are_told_to() -> None:
    assert nights(9, 3 * DAY_S) == [f"2026-11-0{day}" for day in (1, 1, 1, 4, 4, 4, 7, 7, 7)]
    assert nights(9, None) == ["2026-11-01"] * 9
    assert nights(3, DAY_S) == ["2026-11-01", "2026-11-02", "2026-11-03"]


def test_a_model_of_unknown_descent_counts_from_its_own_day_and_one_without_a_day_from_today() -> None:
    assert decide(FoundModel(SOURCE, "2026-11-01"), "2026-11-20", 30 * DAY_S).source == SOURCE.model_copy(
        update={"full_date": "2026-11-01"}
    )
    assert decide(FoundModel(SOURCE, "2026-11-01"), "2026-11-20", 7 * DAY_S) == Beginning(
        scratch="train.full_every: 7 d: the weights of version 14 go back to a training from scratch of 2026-11-01: "
        "trains from scratch"
    )
    today = decide(FoundModel(SOURCE), "2026-11-20", DAY_S).source
    assert today is not None
    assert today.full_date == "2026-11-20"


def test_whoever_begins_from_a_model_of_a_later_day_is_told() -> None:
    later = decide(FoundModel(SOURCE, "2026-11-21"), "2026-11-20", DAY_S)
    assert later.source is not None
    assert later.warning == (
        "this run of 2026-11-20 begins from version 14, which is of 2026-11-21: it knows later rows"
    )
    assert not decide(FoundModel(SOURCE, "2026-11-20"), "2026-11-20", None).warning


# ---- where it is ----


class Shelf:
    """The runs of one name, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rundir = RunDirectory(str(folder), "t", "2026-11-20")

    def beginning(self, init_from: str, **train: Any) -> Beginning:
        """Returns what a run of the 20th begins with."""
        config = JobConfig.model_validate(
            {
                "name": "t",
                "model": "m:build",
                "data": {"path": "lake", "inputs": {"x": "x"}, "targets": {"y": "y"}},
                "output": {"path": str(self.folder)},
                "train": {"init_from": init_from, **train},
            }
        )
        systems = FileSystems()
        return beginning_of(normalised(config, systems.normalise), self.rundir, systems, TODAY)

    def publish(self, number: int, date: str, **manifest: Any) -> Path:
        """Writes a version, and makes it the current one."""
        folder = self.folder / "t" / "serving" / str(number)
        self.model(folder)
        files = tuple(StagedFile(name=name, nbytes=0, sha256="") for name in ("assets.json", "model.keras"))
        facts = {
            "files": files,
            "name": "t",
            "run_id": date,
            "date": date,
            "published": "",
            "plan_hash": "",
            "steps": 1,
        }
        content = ModelManifest.model_validate({**facts, **manifest}).model_dump_json(exclude_unset=True)
        (folder / "MANIFEST.json").write_text(content, encoding="utf-8")
        (folder.parent / "CURRENT").write_text(f"{number}\n", encoding="utf-8")
        return folder

    def run(self, run_id: str, **result: Any) -> RunDirectory:
        """Writes what a run leaves that is done."""
        rundir = RunDirectory(str(self.folder), "t", run_id)
        self.model(Path(rundir.model))
        found = RunResult.model_validate({"run_id": run_id, "name": "t", "verdict": Verdict.DONE, **result})
        Path(rundir.result).write_text(found.model_dump_json(), encoding="utf-8")
        return rundir

    @staticmethod
    def model(folder: Path) -> None:
        folder.mkdir(parents=True)
        for name in ("model.keras", "assets.json"):
            (folder / name).touch()


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_the_published_model_is_the_one_that_current_names(shelf: Shelf) -> None:
    nothing = shelf.beginning("published")
    assert nothing == Beginning(scratch="train.init_from: published: no model of t is published: trains from scratch")
    shelf.publish(13, "2026-11-18")
    folder = shelf.publish(14, "2026-11-19", full_date="2026-11-15")
    source = shelf.beginning("published").source
    assert source == ModelSource(
        label="version 14",
        path=str(folder),
        files=("assets.json", "model.keras"),
        version=14,
        run_id="2026-11-19",
        full_date="2026-11-15",
    )
    (folder.parent / "CURRENT").write_text("13\n", encoding="utf-8")
    rolled_back = shelf.beginning("published").source
    assert rolled_back is not None
    assert (rolled_back.label, rolled_back.full_date) == ("version 13", "2026-11-18"), "published before warm starts"
    assert shelf.beginning("published", full_every="2d").source is None


def test_a_run_is_found_by_its_id_and_hands_on_since_when_its_weights_are_trained(shelf: Shelf) -> None:
    rundir = shelf.run("2026-11-19", date="2026-11-19", carried=Carried(source="x", full_date="2026-11-14"))
    assert shelf.beginning("run:2026-11-19").source == ModelSource(
        label="run t/2026-11-19",
        path=rundir.model,
        files=("model.keras", "assets.json"),
        run_id="2026-11-19",
        full_date="2026-11-14",
    )
    shelf.run("scratch", date="2026-11-18")
    source = shelf.beginning("run:scratch").source
    assert source is not None
    assert source.full_date == "2026-11-18"


def test_a_path_is_a_file_or_a_folder_of_a_model(shelf: Shelf, tmp_path: Path) -> None:
    shelf.model(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "notebook.keras").touch()
    folder = str(tmp_path / "elsewhere")
    for path, file in ((f"{folder}/", "model.keras"), (f"file:{folder}/notebook.keras", "notebook.keras")):
        source = shelf.beginning(path).source
        assert source is not None
        assert (source.path, source.files) == (folder, (file, "assets.json"))
        assert source.full_date == "2026-11-20"
    version = shelf.publish(3, "2026-11-10", full_date="2026-11-08")
    source = shelf.beginning(str(version)).source
    assert source is not None
    assert (source.label, source.run_id, source.full_date) == (str(version), "2026-11-10", "2026-11-08")


def test_what_is_not_there_or_no_model_is_refused_by_name(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "t" / "begun").mkdir(parents=True)
    for init_from, said in {
        "run:2026-11-19": "train.init_from: run:2026-11-19: there is no run t/2026-11-19: .*t/2026-11-19 does not",
        "run:begun": "train.init_from: run:begun: run t/begun has no model: it has not ended, has failed, or exported",
        "run:2026-11-20": "run:2026-11-20 is this run itself, which resumes from its own checkpoints: name",
        str(tmp_path / "none.keras"): "train.init_from: .*none.keras does not exist",
        str(tmp_path / "notes.txt"): "notes.txt is not a model: give published, run:<run id>, a .keras file",
        str(tmp_path / "t"): "t is not a model: give published, run:<run id>, a .keras file, or a folder",
    }.items():
        with pytest.raises(ConfigError, match=said):
            shelf.beginning(init_from)
    folder = shelf.publish(14, "2026-11-19")
    (folder / "MANIFEST.json").write_text("{}", encoding="utf-8")
    with pytest.raises(
        ConfigError,
        match=r"published: version 14 is damaged .*MANIFEST\.json is not a manifest.*: choose .* rollback t --to",
    ):
        shelf.beginning("published")
    (folder.parent / "CURRENT").write_text("12\n", encoding="utf-8")
    with pytest.raises(
        ConfigError,
        match="names version 12, which does not exist: choose another one with sparktf rollback t",
    ):
        shelf.beginning("published")


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ("{init_from: ''}", "train.init_from.*is empty: say published, run:<run id> or a path"),
        ("{init_from: 'run:a/b'}", "train.init_from.*'a/b' cannot name a folder"),
        ("{full_every: 7d}", "full_every applies to a warm start: give init_from"),
        ("{init_optimizer: true}", "init_optimizer applies to a warm start"),
        ("{init_tables: {user: users}}", "init_tables applies to a warm start"),
        ("{init_from: published, full_every: 0d}", "train.full_every"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(train: str, said: str) -> None:
    data = "{path: x, inputs: {x: x}, targets: {y: y}}"
    text = f"{{name: t, model: 'm:build', data: {data}, output: {{path: y}}, train: {train}}}"
    with pytest.raises(ConfigError, match=said):
        parse_config(text)


# ---- in a run ----


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendDriver:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    return warm_driver(tmp_path)


def warm_driver(tmp_path: Path, application: str = "app", **train: Any) -> PretendDriver:
    lake = tmp_path / "lake"
    if not lake.exists():
        write_lake(lake, [20])
        Shelf.model(tmp_path / "before")
    train = {"init_from": str(tmp_path / "before"), **train}
    config = pretend_config(lake, tmp_path / "runs", train=train)
    made = PretendDriver(Application(application), config, plan_lake(lake))
    made.hooks = Night(FileSystems(), made.site.clock, unmeasured)
    return made


def test_a_result_says_what_its_run_began_with(driver: PretendDriver, tmp_path: Path) -> None:
    result = driver.train()
    assert result.carried == Carried(source=str(tmp_path / "before"), full_date="2023-11-14")
    said = driver.said.getvalue()
    assert f"attempt 1: 1 worker on h, from {tmp_path / 'before'}" in said
    assert said.count(f"begins from {tmp_path / 'before'}: 0 of 0 variables kept") == 1


def test_a_resume_goes_first_and_the_result_still_says_what_the_run_began_with(
    driver: PretendDriver, tmp_path: Path
) -> None:
    driver.failures = 1
    result = driver.train()
    assert [attempt.from_step for attempt in result.attempts] == [0, 10]
    said = driver.said.getvalue()
    assert said.count("begins from") == 1, "the second attempt is no warm start"
    assert "attempt 2: 1 worker on h, from step 10" in said
    assert result.carried is not None
    assert result.carried.source == str(tmp_path / "before")


def test_a_run_that_is_submitted_again_asks_no_more_for_what_it_began_with(
    driver: PretendDriver, tmp_path: Path
) -> None:
    once = warm_driver(tmp_path, max_attempts=1)
    once.failures = 1
    with pytest.raises(NodeLostError):
        once.train()
    for name in ("model.keras", "assets.json"):
        (tmp_path / "before" / name).unlink()
    again = warm_driver(tmp_path, "another")
    result = again.train()
    assert [attempt.from_step for attempt in result.attempts] == [10]
    assert result.carried == Carried(source=str(tmp_path / "before"), full_date="2023-11-14")
    assert "begins from" not in again.said.getvalue()


def test_what_is_not_there_is_refused_before_a_node_is_held(driver: PretendDriver, tmp_path: Path) -> None:
    (tmp_path / "before" / "model.keras").unlink()
    with pytest.raises(ConfigError, match="is not a model") as raised:
        driver.train()
    assert raised.value.result.attempts == ()
    assert "reserve" not in raised.value.result.seconds


def test_it_is_told_in_one_line() -> None:
    def variable(how: Any, **counts: Any) -> CarriedVariable:
        return CarriedVariable(name="v", shape=(1,), how=how, **counts)

    tables = [variable("entries", kept=100, new=3, left=2), variable("entries", kept=1020, new=0, left=0)]
    carried = Carried(source="version 14", optimizer=True, variables=(variable("kept"), *tables, variable("new")))
    assert carried.in_words() == (
        "begins from version 14: 3 of 4 variables kept, the optimizer's state too, "
        "2 tables: 1,120 entries kept, 3 new, 2 gone"
    )
    one = Carried(source="run t/1", variables=(variable("entries", kept=1),))
    assert one.in_words() == "begins from run t/1: 1 of 1 variable kept, 1 table: 1 entry kept, 0 new, 0 gone"
