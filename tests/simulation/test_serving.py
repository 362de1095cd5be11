"""Published models: readers see whole ones alone, whoever is killed or frozen wherever; dates, rollback, pruning."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pretend import PretendDriver, WatchedStorage, pretend_config, unmeasured
from published import DAYS, MODEL, NOW_S, Lab

from sparktf.commands.cli import main
from sparktf.config.load import parse_config
from sparktf.driver.plan.plan import Plan
from sparktf.errors import ConfigError, FencedOffError, ModelContractError, StorageError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.night import Night
from sparktf.published.release import release_of
from sparktf.published.serving import Published, Serving
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.runs.model_commands import stored_release
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.checkpoints import MANIFEST


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here, and no other node fails meanwhile."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)


@pytest.fixture
def lab(tmp_path: Path, plan: Plan) -> Lab:
    return Lab(tmp_path / "runs", plan)


class KilledError(BaseException):
    """The process is gone."""


CHANGES = {"write", "copy", "make", "rename", "replace", "delete"}


class Killer:
    """Kills a process before one of its calls: from then on it makes none. Somebody looks after each change."""

    def __init__(self, at: int, look: Callable[[], object] = lambda: None) -> None:
        self.calls: list[str] = []
        self._at = at
        self._look = look

    def __call__(self, what: str, path: str) -> None:
        if not self.calls or self.calls[-1] in CHANGES:
            self._look()
        if len(self.calls) >= self._at:
            raise KilledError
        self.calls.append(what)

    def kills(self, work: Callable[[], object]) -> bool:
        """Whether it has killed what works through it."""
        try:
            work()
        except KilledError:
            self._look()
            return True
        return False


def test_readers_see_whole_models_alone_while_publishes_are_killed_at_every_call(lab: Lab) -> None:
    """Each run is killed before another one of its calls, and submitted again; a reader looks after each change."""
    lab.publish("first")
    killed, kinds = 0, set()
    for number in range(1, 200):
        run_id, before = f"r{number:03d}", lab.seen()
        assert before is not None
        seen: set[tuple[int, str] | None] = set()
        killer = Killer(number - 1, lambda seen=seen: seen.add(lab.seen()))  # type: ignore[misc]
        was_killed = killer.kills(lambda run=run_id, through=killer: lab.night(run, WatchedStorage(through)))  # type: ignore[misc]
        assert before in seen
        assert {found and found[1] for found in seen} <= {before[1], run_id}
        kinds.update(killer.calls[-1:])
        lab.night(run_id, LocalStorage())
        current = lab.seen()
        assert current is not None
        assert current[1] == run_id
        runs = lab.runs_of_versions()
        assert lab.in_sight() == sorted(runs)
        assert lab.in_sight()[-1] == current[0]
        assert len(set(runs.values())) == len(runs) == min(number + 1, 3)
        if not was_killed:
            break
        killed += 1
        for left in lab.left_over():  # as a run of the next day does
            shutil.rmtree(Path(lab.serving.path, left))
    assert not was_killed
    assert killed >= 50
    assert {"copy", "rename", "replace", "write", "make", "checksum", "delete"} <= kinds


def test_numbers_grow_by_one_and_what_is_there_is_what_was_trained(lab: Lab, plan: Plan) -> None:
    Path(lab.run("c").statistics).write_text("statistics of c", encoding="utf-8")
    assert [lab.publish(run).version for run in ("a", "b", "c")] == [1, 2, 3]
    assert not Path(lab.serving.path, "2", "statistics.json").exists(), "that run had no data.checks"
    folder = Path(lab.serving.path, "3")
    assert lab.seen() == (3, "c")
    assert Path(lab.serving.path, "CURRENT").read_text(encoding="utf-8") == "3\n"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    model = {name.removeprefix("saved_model/") for name in MODEL}
    assert names == model | {"metrics.json", "data.json", "statistics.json", "MANIFEST.json"}
    assert (folder / "statistics.json").read_text(encoding="utf-8") == "statistics of c"
    assert json.loads((folder / "metrics.json").read_bytes()) == {"validation": {"accuracy": 0.5}}
    data = json.loads((folder / "data.json").read_bytes())
    assert [file["path"] for file in data["files"]] == list(plan.files)
    assert [file["nbytes"] for file in data["files"]] == [os.path.getsize(path) for path in plan.files]
    manifest = json.loads((folder / "MANIFEST.json").read_bytes())
    assert (manifest["run_id"], manifest["date"], manifest["published"]) == ("c", DAYS[0], "2023-11-14T22:13:20+00:00")
    assert {file["name"] for file in manifest["files"]} == names - {"MANIFEST.json"}
    assert lab.left_over() == []


def test_a_model_that_is_not_as_it_was_exported_is_not_published(lab: Lab) -> None:
    lab.publish("a")
    rundir = lab.run("b")
    Path(rundir.model, "model.keras").write_text("kerbs of b", encoding="utf-8")
    with pytest.raises(StorageError, match=r"model\.keras: the checksum differs"):
        lab.publish("b")
    assert (lab.seen(), lab.in_sight(), lab.left_over()) == ((1, "a"), [1], [])


class Freezer:
    """Lets something else happen before one of the calls of a process on what readers see."""

    def __init__(self, at: int, meanwhile: Callable[[], object]) -> None:
        self.happened = False
        self._left = at
        self._meanwhile = meanwhile

    def __call__(self, what: str, path: str) -> None:
        if "/_staged-" in path:
            return
        self._left -= 1
        if self._left == -1:
            self._meanwhile()
            self.happened = True


def three_versions(tmp_path: Path, plan: Plan) -> Lab:
    lab = Lab(tmp_path / "ready", plan)
    for run, date in zip("abc", DAYS, strict=True):
        lab.publish(run, date)
    return lab


def frozen_everywhere(
    tmp_path: Path, plan: Plan, frozen: Callable[[Lab, Storage], object], meanwhile: Callable[[Lab], object]
) -> list[Lab]:
    """Freezes one process before its first call, then before its second, and so on; returns what each has left."""
    left: list[Lab] = []
    ready = three_versions(tmp_path, plan)
    while len(left) < 200:
        lab = ready.copy(tmp_path / str(len(left)))
        freezer = Freezer(len(left), lambda lab=lab: meanwhile(lab))  # type: ignore[misc]
        frozen(lab, WatchedStorage(freezer))
        if not freezer.happened:
            return left
        found = lab.seen()
        assert found is not None
        assert lab.in_sight()[-1] == found[0], "who takes the highest number gets what CURRENT names"
        left.append(lab)
    raise AssertionError("it makes calls without end")


def test_of_two_publishers_each_gets_a_number_of_its_own(tmp_path: Path, plan: Plan) -> None:
    left = frozen_everywhere(
        tmp_path, plan, lambda lab, storage: lab.publish("x", DAYS[2], storage), lambda lab: lab.publish("y", DAYS[2])
    )
    assert len(left) > 20
    runs = [lab.runs_of_versions() for lab in left]
    assert all(sorted(found.values()) == ["a", "b", "c", "x", "y"] for found in runs)
    assert {found[5] for found in runs} == {"x", "y"}


def test_an_older_date_frozen_anywhere_never_takes_the_place_of_a_newer_one(tmp_path: Path, plan: Plan) -> None:
    def older(lab: Lab, storage: Storage) -> None:
        lab.publish("old", DAYS[2], storage)

    for lab in frozen_everywhere(tmp_path, plan, older, lambda lab: lab.publish("new", "2026-11-22")):
        found = lab.seen()
        assert found is not None
        assert found[1] == "new"


def test_of_two_drivers_of_one_run_one_publishes(tmp_path: Path, plan: Plan) -> None:
    left = frozen_everywhere(
        tmp_path, plan, lambda lab, storage: lab.publish("x", DAYS[2], storage), lambda lab: lab.publish("x", DAYS[2])
    )
    assert all(lab.runs_of_versions() == {1: "a", 2: "b", 3: "c", 4: "x"} for lab in left)


def test_a_rollback_beside_a_publish_leaves_one_of_both(tmp_path: Path, plan: Plan) -> None:
    left = frozen_everywhere(
        tmp_path,
        plan,
        lambda lab, storage: Serving(storage, lab.root, "t").rollback(1),
        lambda lab: lab.publish("x", "2026-11-22"),
    )
    assert all(sorted(lab.runs_of_versions()) == [1, 2, 3, 4] for lab in left)
    assert {lab.seen() for lab in left} == {(1, "a"), (4, "x")}


def test_what_is_pruned_is_never_what_somebody_rolls_back_to(tmp_path: Path, plan: Plan) -> None:
    def rolled_back(lab: Lab) -> None:
        with_luck = lab.serving.versions()[0].number == 1
        if with_luck:
            lab.serving.rollback(1)

    left = frozen_everywhere(tmp_path, plan, lambda lab, storage: Serving(storage, lab.root, "t").prune(1), rolled_back)
    assert {lab.seen() for lab in left} == {(1, "a"), (3, "c")}


# --- dates ---


def test_an_older_date_is_not_published_and_the_same_date_is(lab: Lab) -> None:
    lab.publish("new", DAYS[1])
    stood_back = lab.publish("old", DAYS[0])
    assert (stood_back.version, stood_back.newer_date) == (None, DAYS[1])
    assert (lab.seen(), lab.in_sight()) == ((1, "new"), [1])
    assert lab.publish("again", DAYS[1]).version == 2
    assert lab.seen() == (2, "again")


def test_a_run_is_published_once(lab: Lab) -> None:
    lab.publish("a")
    assert lab.publish("a") == Published(1, is_current=True)
    lab.publish("b")
    assert lab.publish("a") == Published(1)
    assert (lab.seen(), lab.in_sight()) == ((2, "b"), [1, 2])


def test_a_run_that_was_killed_before_its_model_was_current_goes_on_there(lab: Lab) -> None:
    lab.publish("a", DAYS[0])
    Path(lab.serving.path, "CURRENT").write_text("0\n", encoding="utf-8")
    assert lab.publish("older", "2026-11-18").version is None
    assert lab.publish("a", DAYS[0]) == Published(1, is_new=True, is_current=True)
    assert lab.seen() == (1, "a")


# --- rollback and promotion ---


def test_a_rollback_is_seen_by_number_and_by_name_and_can_be_undone(lab: Lab) -> None:
    for run, date in zip("abc", DAYS, strict=True):
        lab.publish(run, date)
    assert lab.serving.rollback() == 2
    assert (lab.seen(), lab.in_sight()) == ((2, "b"), [1, 2])
    assert lab.serving.rollback() == 1
    assert (lab.seen(), lab.in_sight()) == ((1, "a"), [1])
    with pytest.raises(ConfigError, match="there is no version before 1"):
        lab.serving.rollback()
    assert lab.serving.rollback(3) == 3
    assert lab.seen() == (3, "c")
    assert lab.serving.rollback(2) == 2
    assert lab.publish("d", DAYS[1]).version == 4
    assert lab.runs_of_versions() == {1: "a", 2: "b", 3: "c", 4: "d"}
    assert lab.serving.rollback() == 2, "what was rolled back is not what one rolls back to"
    with pytest.raises(ConfigError, match="t has no version 7; its versions: 1, 2, 3, 4"):
        lab.serving.rollback(7)


def test_a_damaged_version_is_not_rolled_back_to(lab: Lab) -> None:
    lab.publish("a")
    lab.publish("b")
    Path(lab.serving.path, "1", "saved_model.pb").write_text("grape of a", encoding="utf-8")
    with pytest.raises(StorageError, match=r"saved_model\.pb: the checksum differs"):
        lab.serving.rollback()
    assert lab.serving.current() == 2


@pytest.mark.parametrize("target", [1, 3])
def test_a_rollback_that_is_killed_anywhere_loses_no_version(tmp_path: Path, plan: Plan, target: int) -> None:
    ready = three_versions(tmp_path, plan)
    if target == 3:
        ready.serving.rollback(1)
    for killed_at in range(200):
        lab = ready.copy(tmp_path / str(killed_at))
        killer = Killer(killed_at, lab.seen)
        serving = Serving(WatchedStorage(killer), lab.root, "t")
        if not killer.kills(lambda serving=serving: serving.rollback(target)):  # type: ignore[misc]
            break
        assert lab.serving.rollback(lab.serving.current()) in (1, 3)
        assert lab.runs_of_versions() == {1: "a", 2: "b", 3: "c"}
        assert lab.serving.rollback(target) == target
        assert lab.seen() == (target, "abc"[target - 1])
        assert lab.in_sight()[-1] == target
    assert 20 < killed_at < 199


def test_a_promoted_run_is_current_whatever_day_it_is_of(lab: Lab) -> None:
    lab.publish("new", DAYS[2])
    old = lab.run("old", DAYS[0], verdict=Verdict.GATED)
    assert lab.publish("old", DAYS[0]).version is None
    assert lab.serving.promote(stored_release(LocalStorage(), old, NOW_S)) == 2
    assert lab.seen() == (2, "old")
    assert lab.serving.manifest(lab.serving.versions()[1]).date == DAYS[0]
    new = RunDirectory(lab.root, "t", "new")
    assert lab.serving.promote(stored_release(LocalStorage(), new, NOW_S)) == 1, "it has a version"
    assert lab.seen() == (1, "new")


def test_a_run_that_has_not_ended_well_is_not_promoted(lab: Lab) -> None:
    with pytest.raises(ConfigError, match=r"t/none has no result\.json: there is no such run"):
        stored_release(LocalStorage(), RunDirectory(lab.root, "t", "none"), NOW_S)
    failed = lab.run("failed", verdict=Verdict.MODEL_FAILED)
    with pytest.raises(
        ConfigError, match="run t/failed ended with exit code 1, and has no model to publish: submit it again"
    ):
        stored_release(LocalStorage(), failed, NOW_S)
    loop = lab.run("loop", model="")
    with pytest.raises(ModelContractError, match="run t/loop has no model to publish"):
        stored_release(LocalStorage(), loop, NOW_S)


# --- pruning ---


def test_the_newest_models_stay_and_the_current_one(lab: Lab) -> None:
    for run in "abcde":
        lab.publish(run)
    assert lab.serving.prune(5) == ()
    lab.serving.rollback(1)
    assert lab.serving.prune(2) == (2, 3)
    assert lab.runs_of_versions() == {1: "a", 4: "d", 5: "e"}
    assert lab.publish("f").version == 6
    assert lab.serving.prune(1) == (1, 4, 5)
    assert (lab.seen(), lab.left_over()) == ((6, "f"), [])


def test_a_folder_of_somebody_elses_whose_name_is_a_number_is_not_pruned(lab: Lab) -> None:
    for run in "abc":
        lab.publish(run)
    LocalStorage().write_bytes(f"{lab.serving.path}/7/part-0.parquet", b"a row of the lake")
    manifest = Path(lab.serving.path, "1", MANIFEST)
    manifest.write_text(
        manifest.read_text(encoding="utf-8").replace('"name": "t"', '"name": "another"'), encoding="utf-8"
    )
    assert '"another"' in manifest.read_text(encoding="utf-8")
    assert lab.serving.prune(1) == (2,)
    assert lab.in_sight() == [1, 3, 7]


def test_what_a_killed_process_has_left_goes_after_a_day(lab: Lab) -> None:
    for name, age_s in (("_staged-old-0123abcd", 90_000), ("_staged-new-0123abcd", 3_600)):
        LocalStorage().write_bytes(f"{lab.serving.path}/{name}/saved_model.pb", b"1")
        for path in (f"{lab.serving.path}/{name}/saved_model.pb", f"{lab.serving.path}/{name}"):
            os.utime(path, (NOW_S - age_s, NOW_S - age_s))
    lab.publish("a")
    assert lab.left_over() == ["_staged-new-0123abcd"]


# --- a run ---


class Nights:
    """Submissions of run `r`, which publishes."""

    def __init__(self, root: Path, lake: Path, plan: Plan) -> None:
        self.root = root
        self._lake = lake
        self._plan = plan

    def driver(self, name: str = "app", **sections: Any) -> PretendDriver:
        plain = {"publish": {"date": DAYS[1]}, **sections}
        config = pretend_config(self._lake, self.root, **plain)
        driver = PretendDriver(Application(name), config, self._plan)
        driver.hooks = Night(FileSystems(), driver.site.clock, unmeasured)
        return driver


@pytest.fixture
def nights(tmp_path: Path, lake: Path, plan: Plan) -> Nights:
    return Nights(tmp_path / "runs", lake, plan)


def versions(nights: Nights) -> dict[int, str]:
    serving = Serving(LocalStorage(), str(nights.root), "t")
    return {v.number: serving.manifest(v).run_id for v in serving.versions()}


def test_a_run_that_is_done_publishes_its_model(nights: Nights) -> None:
    driver = nights.driver()
    result = driver.train()
    assert result.extra["published"] == 1
    assert f"published as version 1: {nights.root}/t/serving/1" in driver.said.getvalue()
    stored = RunResult.model_validate_json(Path(result.path, "result.json").read_bytes())
    assert stored.extra == result.extra
    assert (nights.root / "t" / "serving" / "1" / "weights").read_bytes() == b"model of app"
    assert (nights.root / "t" / "serving" / "CURRENT").read_text(encoding="utf-8") == "1\n"


def test_nothing_is_published_unless_it_is_asked_for(nights: Nights) -> None:
    result = nights.driver(publish=None).train()
    assert (result.verdict, result.extra) == (Verdict.DONE, {})
    assert not (nights.root / "t" / "serving").exists()


def test_a_run_that_is_resumed_after_it_has_published_publishes_no_second_time(nights: Nights) -> None:
    class Dying(Night):
        def after_training(self, *arguments: Any) -> dict[str, Any]:
            super().after_training(*arguments)
            raise StorageError("the power is cut")

    driver = nights.driver()
    driver.hooks = Dying(FileSystems(), driver.site.clock, unmeasured)
    with pytest.raises(StorageError, match="the power is cut"):
        driver.train()
    again = nights.driver("again")
    assert again.train().extra["published"] == 1
    assert "published already as version 1, which is current" in again.said.getvalue()
    assert versions(nights) == {1: "r"}


def test_a_run_of_an_older_date_is_done_and_changes_nothing_for_readers(nights: Nights, plan: Plan) -> None:
    lab = Lab(nights.root, plan)
    lab.publish("newer", DAYS[2])
    driver = nights.driver()
    result = driver.train()
    assert (result.verdict, result.extra["published"]) == (Verdict.DONE, None)
    said = re.sub(r"\s+", " ", driver.said.getvalue())
    assert f"not published: this model is of {DAYS[1]}, and version 1 is of {DAYS[2]}, which stays" in said
    assert lab.seen() == (1, "newer")


def test_a_driver_whose_run_is_another_ones_publishes_nothing(nights: Nights) -> None:
    left = []

    class Frozen(Night):
        def after_training(self, *arguments: Any) -> dict[str, Any]:
            nights.driver("new", publish=None).train()
            left.extend(sorted(os.listdir(nights.root / "t")))
            return super().after_training(*arguments)

    old = nights.driver("old")
    old.hooks = Frozen(FileSystems(), old.site.clock, unmeasured)
    with pytest.raises(FencedOffError):
        old.train()
    assert "r" in left
    assert versions(nights) == {}
    assert not list((nights.root / "t").glob("serving/_staged*"))


def test_a_run_prunes_when_it_has_published(nights: Nights, plan: Plan) -> None:
    lab = Lab(nights.root, plan)
    for run in "abc":
        lab.publish(run)
    output = {"path": str(nights.root), "keep_models": 2, "keep_runs": 2}
    driver = nights.driver(output=output)
    driver.train()
    assert versions(nights) == {3: "c", 4: "r"}
    assert sorted(os.listdir(nights.root / "t")) == ["c", "r", "serving"]
    assert "output.keep_models: 2: deleted 1, 2" in driver.said.getvalue()
    assert "output.keep_runs: 2: deleted b, a" in driver.said.getvalue()


def test_what_cannot_be_pruned_is_a_warning(nights: Nights, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise StorageError("cannot list")

    monkeypatch.setattr("sparktf.nightly.night.Pruner.prune", fails)
    result = nights.driver(output={"path": str(nights.root), "keep_runs": 1}).train()
    assert result.verdict is Verdict.DONE
    assert result.warnings == ("old models or runs are not deleted: cannot list",)


def test_a_model_function_that_exports_nothing_is_refused_by_name(lab: Lab) -> None:
    rundir = RunDirectory(lab.root, "t", "r")
    result = RunResult(run_id="r", name="t", verdict=Verdict.DONE)
    with pytest.raises(ModelContractError, match="run t/r has no model to publish"):
        release_of(LocalStorage(), rundir, result, None, NOW_S, dict)


# --- configuration and commands ---


CONFIG = """\
name: digits
model: models.digits:build
data: {path: lake, inputs: {x: x}, targets: {y: y}}
output: {path: runs}
"""


@pytest.mark.parametrize(("publish", "day"), [({}, DAYS[0]), ({"date": DAYS[2]}, DAYS[2])])
def test_the_date_of_a_model_is_that_of_the_command_line_unless_the_configuration_says_another(
    nights: Nights, publish: dict[str, str], day: str
) -> None:
    driver = nights.driver(publish=publish)
    driver.config = driver.config.for_day(dt.date.fromisoformat(DAYS[0]))
    driver.train()
    serving = Serving(LocalStorage(), str(nights.root), "t")
    assert [serving.manifest(version).date for version in serving.versions()] == [day]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("publish: {date: 2026-W01-1}", "publish.date: '2026-W01-1' is no day of the calendar as YYYY-MM-DD"),
        ("publish: {date: today}", "publish.date: 'today' is no day of the calendar"),
        ("publish: {dates: x}", "publish.dates is unknown: did you mean publish.date?"),
    ],
)
def test_what_is_no_day_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_config(f"{CONFIG}{text}\n")


def test_models_are_kept_only_where_they_are_published() -> None:
    with pytest.raises(ConfigError, match=r"output\.keep_models needs published models: give publish"):
        parse_config(CONFIG, ["output.keep_models=3"])


def test_no_run_takes_the_folder_of_the_published_models() -> None:
    with pytest.raises(ConfigError, match="--run-id serving is reserved"):
        RunDirectory("runs", "t", "serving")


def test_the_commands_list_roll_back_and_promote(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKTF_OUTPUT", lab.root)
    for run, date in zip("abc", DAYS, strict=True):
        lab.publish(run, date)
    assert main(["rollback", "t"]) == 0
    assert capsys.readouterr().out == f"t: version 2 is current, and no longer 3: {lab.serving.path}/2\n"
    assert main(["models", "t"]) == 0
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if "│" in line]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert [row[:4] for row in cells] == [
        ["3", "withdrawn", DAYS[2], "c"],
        ["2", "current", DAYS[1], "b"],
        ["1", "", DAYS[0], "a"],
    ]
    assert cells[0][-1] == "accuracy 0.5000"
    assert main(["promote", "t/c", "--output", lab.root]) == 0
    assert capsys.readouterr().out == f"t: version 3, of run c, is current: {lab.serving.path}/3\n"
    assert lab.seen() == (3, "c")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["models", "t"], "the output folder is not given: give --output PATH"),
        (["models", "t", "--output", "{root}"], "t has no published model in {root}/t/serving"),
        (["rollback", "t", "--output", "{root}"], "no model of t is published: {root}/t/serving has no CURRENT"),
        (["models", "--output", "{root}"], "no name is given: give NAME or --config FILE"),
        (["promote", "r", "--output", "{root}"], "there is no run 'r' below {root}"),
        (["models", "../t", "--output", "{root}"], "NAME '../t' cannot name a folder"),
    ],
)
def test_a_command_that_cannot_be_done_says_why_and_returns_2(
    tmp_path: Path,
    line: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARKTF_OUTPUT", raising=False)
    assert main([word.format(root=tmp_path) for word in line]) == 2
    assert message.format(root=tmp_path) in capsys.readouterr().err
