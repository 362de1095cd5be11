"""Backfills: which dates are run, in which order, what is passed over, and what ends them."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from sparktf.commands.cli import main
from sparktf.config.load import load_config
from sparktf.errors import ConfigError, ErrorRecord, Verdict
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems
from sparktf.submit.backfill import Backfill, DatedRun, check_order, dates_between, exit_code, runs_of, table_of

DAY_S = 86_400.0
KILLED = 137
DATES = ["2026-11-01", "2026-11-02", "2026-11-03"]
CONFIG = """\
name: churn
model: churn:build
data: {path: "lake/{{date}}", inputs: {x: x}, targets: {y: y}}
output: {path: %s}
"""


@pytest.mark.parametrize(
    ("first", "last", "every", "found"),
    [
        ("2026-11-01", "2026-11-03", 1, DATES),
        ("2026-11-01", "2026-11-01", 1, DATES[:1]),
        ("2026-02-27", "2026-03-02", 2, ["2026-02-27", "2026-03-01"]),
        ("2026-11-01", "2026-11-20", 7, ["2026-11-01", "2026-11-08", "2026-11-15"]),
    ],
)
def test_dates_are_days_with_both_ends(first: str, last: str, every: int, found: list[str]) -> None:
    assert dates_between(first, last, every * DAY_S) == found


@pytest.mark.parametrize(
    ("first", "last", "every_s", "said"),
    [
        ("2026-11-31", "2026-12-01", DAY_S, "--from 2026-11-31: must be a day of the calendar"),
        ("2026-11-03", "2026-11-01", DAY_S, "--to 2026-11-01 is before --from 2026-11-03: swap them"),
        ("2026-11-01", "2026-11-03", 3600.0, "--every: 1 h is no number of whole days: write 1d or 7d"),
        ("2026-11-01", "2026-11-03", 0.0, "--every: 0 s is no number of whole days"),
        (
            "1900-01-01",
            "2026-11-03",
            DAY_S,
            "are 46,328 dates, and at most 10,000 are allowed: split them, or give a longer --every",
        ),
    ],
)
def test_what_is_no_range_of_days_is_refused(first: str, last: str, every_s: float, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        dates_between(first, last, every_s)


# --- runs, pretended by a process of a line or two ---


class Runs:
    """Pretended runs.

    Attributes:
        codes: Date -> exit code, 0 for the others.
        owned: Dates whose runs are another submission's, until somebody waits for it.
        begun: The dates in the order in which their runs began.
    """

    def __init__(self, folder: Path) -> None:
        self.codes: dict[str, int] = {}
        self.owned: set[str] = set()
        self.said: list[str] = []
        self._folder = folder

    def command(self, date: str) -> Sequence[str]:
        code = self.codes.get(date, 0)
        end = f"raise SystemExit({code})" if code < KILLED else "import os; os.kill(os.getpid(), 9)"
        program = f"print('run of {date}', flush=True); open({str(self._folder / date)!r}, 'x'); {end}"
        if date in self.owned:
            program = f"import sys; '--wait' in sys.argv or sys.exit({int(Verdict.OWNED)}); {program}"
        return [sys.executable, "-S", "-c", program]

    def backfill(self, parallel: int = 1) -> Backfill:
        return Backfill(self.command, self.said.append, parallel)

    @property
    def begun(self) -> set[str]:
        return {path.name for path in self._folder.iterdir()}


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    (tmp_path / "begun").mkdir()
    return Runs(tmp_path / "begun")


def test_each_date_runs_once_the_earliest_first_and_its_lines_bear_its_date(runs: Runs) -> None:
    work = runs.backfill()
    work.run(DATES)
    assert runs.said == [f"{date}  run of {date}" for date in DATES]
    assert work.codes == dict.fromkeys(DATES, 0)
    assert exit_code(work.codes) == 0


@pytest.mark.parametrize("code", [Verdict.DATA_REFUSED, Verdict.INFRASTRUCTURE, Verdict.NOT_READY, KILLED])
def test_a_date_that_fails_leaves_the_others_their_turn_and_its_exit_code_to_the_whole(runs: Runs, code: int) -> None:
    runs.codes = {DATES[1]: int(code), DATES[2]: 5}
    work = runs.backfill()
    work.run(DATES)
    assert work.codes == {DATES[0]: 0, DATES[1]: code, DATES[2]: 5}
    assert exit_code(work.codes) == code


def test_a_date_whose_model_the_gate_keeps_back_has_not_failed(runs: Runs) -> None:
    runs.codes = {DATES[1]: int(Verdict.GATED)}
    work = runs.backfill()
    work.run(DATES)
    assert work.codes[DATES[2]] == 0
    assert exit_code(work.codes) == 0


def test_a_date_that_another_submission_trains_is_waited_for_and_those_after_it_follow(runs: Runs) -> None:
    runs.owned = {DATES[0]}
    work = runs.backfill()
    work.run(DATES)
    assert runs.said[:2] == [
        f"{DATES[0]}  another submission trains it: waiting for that",
        f"{DATES[0]}  run of {DATES[0]}",
    ]
    assert work.codes == dict.fromkeys(DATES, 0)
    assert exit_code(work.codes) == 0


@pytest.mark.parametrize("code", [Verdict.MODEL_FAILED, Verdict.REFUSED])
def test_what_would_fail_for_every_date_ends_the_backfill(runs: Runs, code: Verdict) -> None:
    runs.codes = {DATES[1]: int(code)}
    work = runs.backfill()
    work.run(DATES)
    assert work.codes == {DATES[0]: 0, DATES[1]: code}
    assert runs.begun == {*DATES[:2]}


def test_an_interrupted_backfill_interrupts_its_runs_and_begins_no_other(tmp_path: Path) -> None:
    # No print: the signal may come while one is under way, and another within it would fail.
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'stopped in order\\n'), sys.exit(130)))\n"
        "os.write(1, b'under way\\n')\n"
        "signal.pause()"
    )
    said: list[str] = []
    both = threading.Semaphore(0)

    def say(line: str) -> None:
        said.append(line)
        if line.endswith("under way"):
            both.release()

    def interrupt() -> None:
        both.acquire()
        both.acquire()
        os.kill(os.getpid(), signal.SIGINT)

    work = Backfill(lambda date: [sys.executable, "-S", "-c", program], say, 2)
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        work.run(DATES)
    assert work.codes == {DATES[0]: 130, DATES[1]: 130}
    assert {line for line in said if "order" in line} == {f"{date}  stopped in order" for date in DATES[:2]}


# --- the command ---


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "churn.yaml"
    path.write_text(CONFIG % (tmp_path / "runs"), encoding="utf-8")
    return path


def ended(folder: Path, date: str, verdict: Verdict, cause: str = "") -> RunDirectory:
    rundir = RunDirectory(str(folder / "runs"), "churn", date)
    Path(rundir.path).mkdir(parents=True)
    error = ErrorRecord(type="DataError", message=cause, verdict=verdict, time_s=0.0) if cause else None
    result = RunResult(run_id=date, name="churn", verdict=verdict, metrics={"validation": {"auc": 0.75}}, error=error)
    Path(rundir.result).write_text(result.model_dump_json(), encoding="utf-8")
    return rundir


def test_runs_that_are_done_are_passed_over_and_others_go_on(config: Path, tmp_path: Path) -> None:
    ended(tmp_path, DATES[0], Verdict.DONE)
    ended(tmp_path, DATES[1], Verdict.INFRASTRUCTURE)
    (tmp_path / "runs/churn" / DATES[1] / "plan").mkdir()
    configs = {date: load_config(config, (), date) for date in DATES}
    found = runs_of(configs, FileSystems())
    assert [(run.is_done, run.state) for run in found] == [(True, "done before"), (False, "goes on"), (False, "new")]


def test_a_configuration_that_says_nothing_of_the_date_is_refused(config: Path) -> None:
    configs = {date: load_config(config, ["data.path=lake"], date) for date in DATES}
    with pytest.raises(ConfigError, match=r"put \{\{date\}\} in data\.path or data\.where"):
        runs_of(configs, FileSystems())


CHAINED = "--parallel 2: with train.init_from: {} the run of {} begins from that of another date: leave --parallel out"


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["train.init_from=published", "publish={}"], CHAINED.format("published", DATES[0])),
        (["train.init_from=run:{{date-1}}"], CHAINED.format("run:2026-11-01", DATES[1])),
        (["train.init_from=published"], ""),
        (["train.init_from=run:2026-10-31"], ""),
        (["publish={}"], ""),
    ],
)
def test_dates_that_begin_from_each_other_are_not_trained_at_once(config: Path, sets: list[str], said: str) -> None:
    configs = {date: load_config(config, sets, date) for date in DATES}
    check_order(configs, 1)
    with pytest.raises(ConfigError, match=said) if said else nullcontext():
        check_order(configs, 2)


def test_a_backfill_of_warm_starts_at_once_ends_with_2(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["--set", "train.init_from=published", "--set", "publish={}"]
    assert main(["backfill", str(config), "--from", DATES[0], "--to", DATES[1], "--parallel", "2", *sets]) == 2
    assert "leave --parallel out" in capsys.readouterr().err


def test_a_dry_run_says_how_each_date_stands(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended(tmp_path, DATES[0], Verdict.DONE)
    assert main(["backfill", str(config), "--from", DATES[0], "--to", DATES[2], "--dry-run"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if "2026" in line]
    assert [[word for word in line if word != "│"] for line in shown] == [
        [DATES[0], "done", "before"],
        [DATES[1], "new"],
        [DATES[2], "new"],
    ]


def test_nothing_is_submitted_where_all_is_done(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for date in DATES[:2]:
        ended(tmp_path, date, Verdict.DONE)
    assert main(["backfill", str(config), "--from", DATES[0], "--to", DATES[1]]) == 0
    shown = capsys.readouterr().out
    assert shown.count("done before") == 2
    assert shown.count("auc 0.7500") == 2


def test_a_cause_with_brackets_stands_in_the_table_as_it_is(tmp_path: Path) -> None:
    rundir = ended(tmp_path, DATES[0], Verdict.DATA_REFUSED, "[/lake/x] has [none, 3]")
    shown = io.StringIO()
    run = DatedRun(DATES[0], rundir, None, has_begun=True)
    Console(file=shown, width=200).print(table_of([run], {DATES[0]: 3}, FileSystems()))
    assert "[/lake/x] has [none, 3]" in shown.getvalue()


def test_a_model_that_is_not_found_ends_it_with_2_and_a_table(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backfill", str(config), "--from", DATES[0], "--to", DATES[1]]) == 2
    shown = capsys.readouterr().out
    assert f"{DATES[0]}  model: there is no module churn" in shown
    assert "exit code 2" in shown
    assert "not begun" in shown


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_a_number_of_runs_is_above_0(config: Path, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["backfill", str(config), "--from", DATES[0], "--to", DATES[1], f"--parallel={number}"])
    assert "is not a whole number above 0" in capsys.readouterr().err
