"""What `sparktf runs`, `show` and `diff` tell of runs, and of those that are not there."""

from __future__ import annotations

import datetime
import io
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from lakes import id_table, no_filter, write_lake
from pretend import PretendClock, PretendDriver, pretend_config, unmeasured
from rich.console import Console

from sparktf.commands.cli import main
from sparktf.config.job import JobConfig
from sparktf.console.console import Display
from sparktf.driver.event_log import EventLog, next_segment
from sparktf.driver.gang.site import Voice
from sparktf.driver.hooks import Hooks
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.run import Run
from sparktf.errors import ConfigError, PreflightError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.history import RunRecord, keep_record
from sparktf.nightly.night import Night
from sparktf.results.events import Event, LineSaid, RunBegun, RunEnded
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.runs.expecting import look_for_run
from sparktf.runs.finding import FoundRun, find_output, find_run
from sparktf.runs.listing import parse_since, print_runs
from sparktf.runs.showing import show
from sparktf.storage.file_systems import FileSystems, open_storage
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.ownership import Ownership
from sparktf.submit.follow import Follower

BEGAN = datetime.datetime(2026, 11, 1, 2, 15, tzinfo=datetime.UTC)
CAUSE = "Input 0 of layer dense is incompatible with the layer: expected axis -1 to have value 4\nbut got 5"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    monkeypatch.setenv("SPARKTF_OUTPUT", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def keep(root: Path, name: str, day: int, **changed: Any) -> RunRecord:
    """Keeps a row of a run that began on a day of November."""
    record = RunRecord(
        name=name,
        run_id=f"2026-11-{day:02d}",
        date=datetime.date(2026, 11, day),
        started=BEGAN + datetime.timedelta(days=day - 1),
        verdict=0,
        cause=None,
        rows=1_234_567,
        metrics={"train": {"loss": 0.5}, "validation": {"accuracy": 0.975, "loss": float("nan")}},
        seconds={"plan": 4.0, "train": 176.0},
        locality=0.97,
        waiting_share=0.02,
    )._replace(**changed)
    storage = LocalStorage()
    keep_record(record, RunDirectory(str(root), name, record.run_id), storage, storage.write_bytes)
    return record


def trained(root: Path, run_id: str, file_rows: list[int], **sections: Any) -> RunResult:
    """Trains, with a history, on a lake of its own."""
    lake = root.parent / f"lake-{run_id}"
    if not lake.exists():
        write_lake(lake, file_rows)
    config = pretend_config(lake, root, output={"path": str(root), "history": True}, **sections)
    return run(config, run_id)


def run(config: JobConfig, run_id: str, **driver_is: Any) -> RunResult:
    driver = PretendDriver(Application(run_id), config, plan_source(config, open_storage, no_filter))
    for name, value in driver_is.items():
        setattr(driver, name, value)
    return Run(driver.gang, config, run_id, Night(FileSystems(), driver.site.clock, unmeasured)).execute()


# --- runs ---


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["runs", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_runs_are_listed_a_line_each_the_last_begun_first(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(root, "churn", 1)
    keep(root, "churn", 2, verdict=1, cause=CAUSE, rows=0, metrics={}, locality=None, waiting_share=None)
    header, *lines = listed(capsys)
    assert header.split() == [
        "run",
        "began",
        "(UTC)",
        "rows",
        "took",
        "local",
        "waited",
        "verdict",
        "metrics,",
        "or",
        "cause",
    ]
    assert lines[0].split("  ")[0] == "churn/2026-11-02"
    assert lines[0].endswith("model failed  " + CAUSE.replace("\n", " "))
    told = "churn/2026-11-01 2026-11-01 02:15 1,234,567 3 min 97% 2% done accuracy 0.9750, loss nan"
    assert lines[1].split() == told.split()


def test_what_is_listed_can_be_chosen(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(root, "churn", 1, verdict=6, cause="not there")
    keep(root, "churn", 20)
    keep(root, "clicks", 3)

    def shown(*arguments: str) -> list[str]:
        return [line.split()[0] for line in listed(capsys, *arguments)[1:]]

    assert shown() == ["churn/2026-11-20", "clicks/2026-11-03", "churn/2026-11-01"]
    assert shown("churn") == ["churn/2026-11-20", "churn/2026-11-01"]
    assert shown("--failed") == ["churn/2026-11-01"]
    assert shown("--since", "2026-11-03") == ["churn/2026-11-20", "clicks/2026-11-03"]
    assert listed(capsys, "clicks", "--failed") == ["no runs found"]


@pytest.mark.parametrize(
    ("hours", "code", "said"),
    [
        (27, 0, "churn/2026-11-03, ended 2026-11-03 02:18 UTC, 26.0 h ago: data refused"),
        (
            25,
            4,
            "no run of churn has ended within 25 h, and none is under way: the last one, churn/2026-11-03, ended "
            "2026-11-03 02:18 UTC, 26.0 h ago: data refused",
        ),
    ],
)
def test_whoever_expects_a_run_is_told_whether_one_came_however_it_ended(
    root: Path, hours: int, code: int, said: str
) -> None:
    keep(root, "churn", 1)
    ended = keep(root, "churn", 3, verdict=3, cause="cents")
    keep(root, "clicks", 9)
    assert ended.started is not None
    now_s = ended.started.timestamp() + 180 + 26 * 3600
    output = find_output(FileSystems(), str(root), None)
    assert output is not None
    coming = look_for_run(output, "churn", hours * 3600.0, now_s, print)
    assert (coming.came, coming.line) == (code == 0, said)


def test_a_run_that_is_under_way_has_come_and_one_that_was_killed_has_not(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(root, "churn", 1)
    assert main(["runs", "churn", "--expect", "26h"]) == 4
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    storage, clock = LocalStorage(), PretendClock()
    owner = Ownership(storage, storage, RunDirectory(str(root), "churn", "2"), Application("a"), clock, 60.0)
    owner.acquire(lambda line: None, wait=False)
    output = find_output(FileSystems(), str(root), None)
    assert output is not None
    assert look_for_run(output, "churn", 3600.0, time.time(), print) == (True, "churn/2 is under way")
    assert not look_for_run(output, "churn", 3600.0, time.time() + 1000, print).came
    owner.release()
    assert not look_for_run(output, "churn", 3600.0, time.time(), print).came


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["churn", "--expect", "a day"], "--expect: 'a day' is no length of time: write 90s, 30m, 2h or 7d"),
        (["churn", "--expect", "1d", "--json"], "--expect asks whether a run came, and lists none: leave out"),
        (["--expect", "1d"], "no name is given: give NAME or --config FILE"),
        (["chrun", "--expect", "1d"], "has no history of 'chrun': did you mean churn?"),
    ],
)
def test_what_nobody_can_expect_is_refused(
    root: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(root, "churn", 1)
    assert main(["runs", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_as_json_a_run_has_all_that_is_kept_of_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = keep(root, "churn", 1)
    (line,) = listed(capsys, "--json")
    found = json.loads(line)
    assert list(found) == list(RunRecord._fields)
    assert (found["date"], found["started"]) == ("2026-11-01", "2026-11-01T02:15:00+00:00")
    assert (found["seconds"], found["rows"]) == (record.seconds, record.rows)
    assert found["metrics"]["validation"] == {"accuracy": 0.975, "loss": None}  # JSON has no nan


@pytest.mark.parametrize("width", [80, 120, 160])
def test_on_a_terminal_a_run_takes_one_line_whatever_its_cause(root: Path, width: int) -> None:
    records = [keep(root, "churn", 1, verdict=1, cause=CAUSE * 3), keep(root, "churn", 2, run_id="again")]
    file = io.StringIO()
    print_runs(Console(file=file, width=width, force_terminal=True, color_system=None), records)
    lines = file.getvalue().splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= width
    assert lines[1].startswith("churn/2026-11-01")
    assert "model failed  Input 0 of layer" in lines[1]
    assert ("1,234,567" in lines[2]) == (width > 80)
    assert ("2026-11-02  2026-11-02 02:15" in lines[2]) == (width > 120)  # the day, which its run id does not tell


def test_a_damaged_row_is_told_of_beside_the_list(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(root, "churn", 1)
    (root / "_runs/name=churn/torn.parquet").write_bytes(b"PAR1")
    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert "churn/2026-11-01" in out
    assert "torn.parquet is not a readable Parquet file" in err


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-20", datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)),
        ("2026-11-20T06:00+02:00", datetime.datetime(2026, 11, 20, 4, tzinfo=datetime.UTC)),
        ("36h", BEGAN - datetime.timedelta(hours=36)),
        ("7d", BEGAN - datetime.timedelta(days=7)),
    ],
)
def test_since_takes_days_times_and_lengths(text: str, time: datetime.datetime) -> None:
    assert parse_since(text, BEGAN) == time


@pytest.mark.parametrize("text", ["yesterday", "99999999d", "-1d", ""])
def test_since_refuses_what_is_neither(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write a day as 2026-11-20, or a length of time as 36h or 7d"):
        parse_since(text, BEGAN)


# --- which runs ---


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 2
    out, err = capsys.readouterr()
    assert not out
    return err.removesuffix("\n")


def test_what_is_not_there_is_refused_with_the_nearest_names(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(root, "churn", 1)
    for name in ("churn/2026-11-20", "churn/2026-11-21", "late/1"):
        (root / name / "events").mkdir(parents=True)
    assert refused(capsys, "runs", "chrun") == f"{root} has no history of 'chrun': did you mean churn?"
    assert refused(capsys, "runs", "late") == (
        f"late has no history below {root}: set output.history: true to record its next runs"
    )
    assert refused(capsys, "show", "churn/2026-11-2") == (
        f"there is no run 'churn/2026-11-2' below {root}: did you mean churn/2026-11-21 or churn/2026-11-20?"
    )
    assert refused(capsys, "show", "churn/last") == (
        f"there is no run 'churn/last' below {root}: there are churn/2026-11-21, churn/2026-11-20"
    )
    assert refused(capsys, "diff", "chrun/1", "late/1") == (
        f"there is no run 'chrun/1' below {root}: did you mean churn?"
    )


def test_without_an_output_it_is_asked_for(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARKTF_OUTPUT")
    assert refused(capsys, "runs") == (
        "the output folder is not given: give --output PATH or --config FILE, or set SPARKTF_OUTPUT"
    )
    assert "--output PATH" in refused(capsys, "show", "churn/1")


def test_an_output_without_a_history_says_how_to_have_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "set output.history: true" in refused(capsys, "runs", "--output", str(root))


def test_a_run_is_found_by_its_name_its_path_or_a_configuration(root: Path, tmp_path: Path) -> None:
    (root / "churn/1/events").mkdir(parents=True)
    config = tmp_path / "churn.yaml"
    config.write_text(
        "{name: churn, model: m:build, data: {path: 'lake/{{date}}', inputs: {x: x}, targets: {y: y}}, "
        f"output: {{path: {root}}}}}",
        encoding="utf-8",
    )
    systems = FileSystems()
    by_config = find_output(systems, None, str(config), {})
    expected = RunDirectory(str(root), "churn", "1")
    by_environment = find_output(systems, None, None, {"SPARKTF_OUTPUT": str(root)})
    assert find_run(systems, "churn/1", by_environment).rundir == expected
    assert find_run(systems, "1", by_config).rundir == expected
    assert find_run(systems, "churn/1", by_config).rundir == expected
    assert find_run(systems, "runs/churn/1/", None).rundir == expected
    assert find_run(systems, f"file://{root}/churn/1", by_config).rundir == expected


# --- show ---


class Shown:
    """What `sparktf show` prints of a run whose driver is somewhere else."""

    def __init__(self, root: Path) -> None:
        self.storage = LocalStorage()
        self.rundir = RunDirectory(str(root), "churn", "1")
        self.file = io.StringIO()
        self.clock = PretendClock()
        self._now_s = self.clock.wall_s()
        Path(self.rundir.events).mkdir(parents=True)

    def says(self, *events: Event) -> None:
        self._now_s += 10.0
        names = [entry.path for entry in self.storage.list(self.rundir.events)]
        log = EventLog(
            self.storage.write_bytes, self.rundir.events, lambda: self._now_s, first_segment=next_segment(names)
        )
        for event in events:
            log.emit(event)
        log.flush()

    def heard(self, events_s: float, beat_s: float) -> Ownership:
        """Has its last events, and its owner's last beat, be so long ago."""
        owner = Ownership(self.storage, self.storage, self.rundir, Application("a"), PretendClock(), 60.0)
        owner.acquire(print, wait=False)
        for segment in Path(self.rundir.events).iterdir():
            os.utime(segment, (self.clock.wall_s() - events_s,) * 2)
        os.utime(f"{self.rundir.term(1)}/beat", (self.clock.wall_s() - beat_s,) * 2)
        return owner

    def ends(self, verdict: Verdict = Verdict.DONE) -> None:
        """Writes the result of what has begun last."""
        started = datetime.datetime.fromtimestamp(int(self._now_s), datetime.UTC).isoformat()
        result = RunResult(run_id="1", name="churn", verdict=verdict, started=started, duration_s=5.0)
        self.storage.write_bytes(self.rundir.result, json.dumps(result.model_dump(mode="json")).encode())

    def show(self, *meanwhile: Callable[[], None]) -> list[str]:
        """Shows the run; each time it waits, the next thing happens."""
        things = iter(meanwhile)

        def passed() -> None:
            next(things)()

        self.clock.passed = passed
        show(FoundRun(self.storage, self.rundir), Console(file=self.file, width=100), self.clock)
        assert next(things, None) is None, "it ended before the run did"
        return self.file.getvalue().splitlines()


BEGUN = RunBegun(run_id="1", config="c", plan="p")


def test_a_run_that_has_ended_is_shown_as_its_driver_did(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = trained(root, "1", [20])
    assert main(["show", "t/1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "t / 1: done"
    assert any("20 planned, 20 fed, 20 trained" in line for line in lines)
    assert any(done.model in line for line in lines)


def test_a_run_under_way_is_followed_to_its_result(root: Path) -> None:
    shown = Shown(root)
    shown.says(BEGUN, LineSaid(text="planned"))
    lines = shown.show(lambda: shown.says(LineSaid(text="epoch 1/1"), RunEnded(verdict=0)), lambda: None, shown.ends)
    assert lines[0].startswith("churn/1 has not ended")
    assert lines[1:3] == ["planned", "epoch 1/1"]
    assert lines[3].strip() == "churn / 1: done"


def test_the_result_of_an_earlier_submission_is_not_that_of_the_one_under_way(root: Path) -> None:
    shown = Shown(root)
    shown.says(BEGUN)
    shown.ends(Verdict.INFRASTRUCTURE)
    shown.says(RunEnded(verdict=4))
    shown.says(BEGUN, LineSaid(text="the data is not ready"))
    lines = shown.show(lambda: None, shown.ends)
    assert "the data is not ready" in lines
    assert [line.strip() for line in lines if "churn / 1" in line] == ["churn / 1: done"]


def test_a_run_that_waits_again_is_under_way_though_its_last_result_is_there(root: Path) -> None:
    lake = write_lake(root.parent / "lake", [20])
    config = pretend_config(lake, root)
    with pytest.raises(PreflightError):
        run(config, "1", refusal=PreflightError("too few slots"))
    follower = Follower(LocalStorage(), RunDirectory(str(root), "t", "1"), Display(Console(file=io.StringIO()), 1.0, 1))
    assert follower.standing() is not None
    seen: list[RunResult | None] = []

    class Waiting(Hooks):
        def before_plan(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> None:
            seen.append(follower.standing())

    driver = PretendDriver(Application("2"), config, plan_source(config, open_storage, no_filter))
    driver.site.clock.wait(threading.Condition(), 60.0)
    Run(driver.gang, config, "1", Waiting()).execute()
    assert seen == [None]
    done = follower.standing()
    assert done is not None
    assert done.verdict is Verdict.DONE


def test_a_driver_that_says_little_is_followed_as_long_as_its_owner_beats(root: Path) -> None:
    shown = Shown(root)
    shown.says(BEGUN)
    shown.heard(events_s=3 * 3600, beat_s=100.0)
    assert shown.show(shown.ends)[0] == (
        "churn/1 has not ended, its last word came 100 s ago: it is followed until it has"
    )


NOBODY = (
    "churn/1 has no result, its last word came {}, and nobody is at work on it: submit the same run id, which goes on "
    "where it was"
)


def joined(lines: list[str]) -> str:
    """Returns what a narrow console has broken into lines."""
    return " ".join(" ".join(lines).split())


def test_a_run_whose_driver_was_killed_is_not_followed(root: Path) -> None:
    shown = Shown(root)
    shown.says(BEGUN, LineSaid(text="epoch 1/9"))
    shown.heard(events_s=3 * 3600, beat_s=3 * 3600)
    assert joined(shown.show()) == f"epoch 1/9 {NOBODY.format('3.0 h ago')}"


def test_nor_any_more_once_it_is_killed_while_it_is_followed(root: Path) -> None:
    shown = Shown(root)
    shown.says(BEGUN)
    shown.heard(events_s=175.0, beat_s=175.0)
    waits = [lambda: None] * 5
    lines = shown.show(*waits)
    assert lines[0].startswith("churn/1 has not ended, its last word came 3 min ago")
    assert joined(lines[1:]) == NOBODY.format("3 min ago")


def test_nor_is_one_that_its_owner_has_left(root: Path) -> None:
    shown = Shown(root)
    shown.says(BEGUN)
    shown.heard(events_s=1.0, beat_s=1.0).release()
    assert "nobody is at work on it" in joined(shown.show())


def test_a_result_stands_whose_last_events_were_not_stored(root: Path) -> None:
    shown = Shown(root)
    shown.says(BEGUN)
    shown.ends(Verdict.DATA_REFUSED)
    assert shown.show()[0].strip() == "churn / 1: data refused"


def test_a_result_that_cannot_be_read_is_told_of(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Shown(root)
    shown.storage.write_bytes(shown.rundir.result, b"{}")
    assert main(["show", "churn/1"]) == 3
    assert "result.json cannot be read" in capsys.readouterr().err


# --- diff ---


def differing(capsys: pytest.CaptureFixture[str], first: str = "t/1", second: str = "t/2") -> dict[str, list[str]]:
    """Returns the cells of each row by what stands in front, and what is the same."""
    assert main(["diff", first, second]) == 0
    lines = capsys.readouterr().out.splitlines()
    found: dict[str, list[str]] = {line: [] for line in lines if line.endswith(": the same")}
    for line in lines:
        if line.startswith("│"):
            key, *cells = (cell.strip() for cell in line.strip("│").split("│"))
            if key:
                found[last := key] = cells
            else:  # a cell goes on
                found[last] = [before + more for before, more in zip(found[last], cells, strict=True)]
    return found


def test_only_what_differs_is_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lakes = [str(root.parent / f"lake-{run_id}") for run_id in ("1", "2")]
    trained(root, "1", [20])
    trained(root, "2", [20, 10], train={"batch_size": 64}, params={"rate": 0.1})
    assert differing(capsys) == {
        "data.path": lakes,
        "params.rate": ["-", "0.1"],
        "train.batch_size": ["256", "64"],
        "train rows": ["20", "30", "+10"],
        "train row groups": ["2", "3", "+1"],
        "files": ["1", "2", "+1"],
        "files of this run alone": ["lake-1/part-00.parquet", "lake-2/part-00.parquet and 1 more", ""],
        "rows trained": ["20", "30", "+10"],
    }


def test_a_run_does_not_differ_from_itself(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(root, "1", [20])
    assert list(differing(capsys, "t/1", "t/1")) == ["configuration: the same", "data: the same", "result: the same"]


def test_a_file_that_was_rewritten_under_its_name_is_a_difference(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(root, "1", [20])
    lake = root.parent / "lake-1"
    pq.write_table(id_table(100, 20), lake / "part-00.parquet", row_group_size=16)
    run(pretend_config(lake, root, output={"path": str(root), "history": True}), "2")
    assert differing(capsys) == {
        "configuration: the same": [],
        "files rewritten in between": ["-", "1"],
        "result: the same": [],
    }


def test_a_run_that_failed_before_it_was_planned_has_a_verdict_at_least(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(root, "1", [20])
    with pytest.raises(PreflightError):
        run(pretend_config(root.parent / "lake-1", root), "2", refusal=PreflightError("too few slots"))
    assert main(["diff", "t/1", "t/2"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "configuration: not compared, t/2 stored none: it is stored once a run has its nodes"
    )
    found = differing(capsys)
    assert found["verdict"] == ["done", "refused", ""]
    assert found["cause"] == ["-", "too few slots", ""]
    assert found["train rows"] == ["20", "-"]
    assert "train.batch_size" not in found
    assert found["rows trained"] == ["20", "0", "-20"]
