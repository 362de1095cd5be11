"""A run's report: when it is written, what it is made of, and that it stands in nobody's way."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lakes import plan_lake, write_lake
from pretend import PretendClock, PretendDriver, WatchedStorage, pretend_config, unmeasured
from reported import HOSTILE, StoredRuns, statistics

from sparktf.commands.cli import main
from sparktf.errors import ErrorRecord, NotStoredError, PreflightError, StorageError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.data_checks import Baseline
from sparktf.nightly.night import Night
from sparktf.nightly.report.charts import rates
from sparktf.nightly.report.drawing import Pen, as_element
from sparktf.nightly.report.drift import DRAWN, density, drift_of, shared_edges
from sparktf.nightly.report.headline import headline_of, headline_of_unended
from sparktf.nightly.report.index_page import SHOWN, indexed_runs, write_index
from sparktf.nightly.report.run_page import run_page
from sparktf.nightly.report.stored import SeenAttempt, gather, told_by
from sparktf.nightly.report.words import moment
from sparktf.results.comparison import Comparison, Difference
from sparktf.results.events import AttemptBegun, AttemptEnded, CourseSeen, Event, LogEntry, RunBegun, RunEnded, Samples
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.statistics.column_statistics import Spread
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.ownership import Ownership
from sparktf.storage.transactions.terms import LastWord

NOW_S = 1_795_600_000.0


class Nights:
    """Submissions of run `r` of training `t`, whose output has reports."""

    def __init__(self, folder: Path) -> None:
        self.lake = write_lake(folder / "lake", [20])
        self.root = folder / "runs"
        self.page = self.root / "t" / "r" / "report.html"
        self.index = self.root / "t" / "index.html"

    def driver(self, storage: Storage | None = None, **output: Any) -> PretendDriver:
        output = {"path": str(self.root), "report": True, **output}
        config = pretend_config(self.lake, self.root, output=output, params={"api_key": "s3cret", "note": HOSTILE})
        driver = PretendDriver(Application("app"), config, plan_lake(self.lake), storage)
        driver.hooks = Night(driver.site.file_systems if storage else FileSystems(), driver.site.clock, unmeasured)
        return driver


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    return Nights(tmp_path)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts are composed, and stand on the page without their lines: test_report_charts.py and pages/ draw them."""
    monkeypatch.setattr(Pen, "svg", lambda pen, axes, label, **how: as_element("<svg />", label))


@pytest.fixture
def runs(tmp_path: Path, undrawn: None) -> StoredRuns:
    return StoredRuns(tmp_path / "runs")


# --- at a run's end ---


def test_a_run_that_is_done_leaves_its_page_and_that_of_its_name(nights: Nights) -> None:
    nights.driver().train()
    page, index = nights.page.read_text(), nights.index.read_text()
    assert "<h1>Trained</h1>" in page
    assert 'href="r/report.html"' in index
    assert [path.name for path in (nights.root / "t").iterdir() if not path.is_dir()] == ["index.html"]


def test_the_page_has_the_events_of_the_runs_last_moment(nights: Nights) -> None:
    nights.driver().train()
    told = gather(LocalStorage(), RunDirectory(str(nights.root), "t", "r")).told
    (attempt,) = told.attempts
    assert f">{moment(attempt.began_s)}</td>" in nights.page.read_text()


def test_no_secret_is_on_it_and_what_looks_like_markup_is_text(nights: Nights) -> None:
    nights.driver().train()
    page = nights.page.read_text()
    assert "s3cret" not in page
    assert "redacted" in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_without_the_setting_there_is_no_page(nights: Nights) -> None:
    assert nights.driver(report=False).train().verdict is Verdict.DONE
    assert not nights.page.exists()
    assert not nights.index.exists()


def test_a_run_without_a_report_does_not_load_what_draws_it() -> None:
    code = "import sparktf.nightly.night, sys; print([m for m in ('matplotlib', 'jinja2') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_failed_and_a_refused_run_have_pages_that_say_why(nights: Nights) -> None:
    driver = nights.driver()
    driver.not_stored = "the disk is full"
    with pytest.raises(NotStoredError):
        driver.train()
    assert "the disk is full" in nights.page.read_text()
    assert "the disk is full" in nights.index.read_text()
    driver = nights.driver()
    driver.refusal = PreflightError("too few slots")
    with pytest.raises(PreflightError):
        driver.train()
    assert "too few slots" in nights.index.read_text()


def test_a_report_that_cannot_be_written_is_a_warning_and_no_other_verdict(nights: Nights) -> None:
    def fails(operation: str, path: str) -> None:
        if operation == "write" and "report.html" in path:
            raise StorageError("the disk is full")

    driver = nights.driver(WatchedStorage(fails))
    assert driver.train().verdict is Verdict.DONE
    assert "output.report: the report is not written: the disk is full" in driver.said.getvalue()
    assert not nights.page.exists()


# --- all runs of a name ---


def test_runs_that_are_gone_vanish_from_the_index(runs: StoredRuns) -> None:
    runs.days(3)
    write_index(runs.storage, str(runs.root), "churn", NOW_S)
    row = '<th scope="row">2026-11-02</th>'  # its day stands on the axis still
    index = runs.root / "churn" / "index.html"
    assert row in index.read_text()
    runs.storage.delete(runs.directory(2).path)
    write_index(runs.storage, str(runs.root), "churn", NOW_S)
    assert row not in index.read_text()
    assert "2026-11-03" in index.read_text()


def test_of_two_runs_that_end_at_once_the_index_has_both_whoever_replaces_it_last(runs: StoredRuns) -> None:
    runs.published(1, 1)
    raced: list[str] = []

    def another_ends(operation: str, path: str) -> None:
        if operation == "replace" and not raced:
            raced.append(path)
            runs.published(2, 2)
            write_index(runs.storage, str(runs.root), "churn", NOW_S)

    write_index(WatchedStorage(another_ends), str(runs.root), "churn", NOW_S)
    assert raced
    index = (runs.root / "churn" / "index.html").read_text()
    assert "2026-11-01" in index
    assert "2026-11-02" in index


def test_a_result_of_another_version_is_left_out_and_no_reason_to_write_the_index_again(runs: StoredRuns) -> None:
    runs.days(2)
    Path(runs.directory(1).result).write_text('{"later": 1}')
    writes: list[str] = []
    storage = WatchedStorage(lambda operation, path: writes.append(path) if operation == "replace" else None)
    write_index(storage, str(runs.root), "churn", NOW_S)
    assert len(writes) == 1
    index = (runs.root / "churn" / "index.html").read_text()
    assert "2026-11-01" not in index
    assert "2026-11-02" in index


def test_whoever_reads_the_index_finds_a_whole_one_whatever_its_writer_dies_at(runs: StoredRuns) -> None:
    runs.days(2)
    write_index(runs.storage, str(runs.root), "churn", NOW_S)
    index = runs.root / "churn" / "index.html"
    calls = 0

    class DiedError(BaseException):
        pass

    for fatal in range(1, 30):
        calls = 0

        def dies(operation: str, path: str, fatal: int = fatal) -> None:
            nonlocal calls
            calls += 1
            if calls == fatal:
                raise DiedError

        try:
            write_index(WatchedStorage(dies), str(runs.root), "churn", NOW_S)
        except DiedError:
            assert index.read_text().rstrip().endswith("</html>")
            continue
        break
    else:
        pytest.fail("it takes more calls than these")
    assert calls > 5
    write_index(runs.storage, str(runs.root), "churn", NOW_S + 30 * 86_400)
    left = [path.name for path in (runs.root / "churn").iterdir() if path.name.startswith("_index-")]
    assert left == []


def test_the_index_has_the_last_runs_and_says_how_many_are_older(runs: StoredRuns) -> None:
    for number in range(SHOWN + 5):
        run_id = f"run-{number}"
        path = runs.root / "churn" / run_id / "result.json"
        path.parent.mkdir(parents=True)
        path.write_text(RunResult(run_id=run_id, name="churn", verdict=Verdict.DONE).model_dump_json())
    found = indexed_runs(runs.storage, str(runs.root), "churn")
    assert len(found.runs) == SHOWN
    assert found.older == 5
    assert [run.result.run_id for run in found.runs[:2]] == [f"run-{SHOWN + 4}", f"run-{SHOWN + 3}"]


def test_a_page_of_somebody_elses_stays(runs: StoredRuns) -> None:
    runs.published(1, version=1)
    page = runs.root / "churn" / "index.html"
    page.write_text("<html>the team's own page</html>", encoding="utf-8")
    with pytest.raises(StorageError, match=r"index\.html is somebody else's page, and stays"):
        write_index(runs.storage, str(runs.root), "churn", NOW_S)
    assert page.read_text(encoding="utf-8") == "<html>the team's own page</html>"
    page.unlink()
    for _ in range(2):  # its own it replaces
        write_index(runs.storage, str(runs.root), "churn", NOW_S)


def killed_at_night(runs: StoredRuns, day: int, silent_s: float) -> None:
    """Leaves a run whose driver was killed, or is at work, so long after its owner's last sign of life."""
    rundir, storage = runs.directory(day), runs.storage
    storage.write_bytes(f"{rundir.events}/000001-a.jsonl", b"")
    ownership = Ownership(storage, storage, rundir, Application("a"), PretendClock(), 60.0)
    ownership.acquire(print, wait=False)
    for path in (f"{rundir.events}/000001-a.jsonl", f"{rundir.term(1)}/beat"):
        os.utime(path, (NOW_S - silent_s,) * 2)


def test_a_night_whose_driver_was_killed_is_a_row_and_a_failure_of_the_index(runs: StoredRuns) -> None:
    runs.published(1, version=1)
    runs.published(2, version=2)
    killed_at_night(runs, 3, silent_s=3600.0)
    killed_at_night(runs, 4, silent_s=30.0)
    (runs.root / "churn" / "notes").mkdir()
    (runs.root / "churn" / "notes" / "a.txt").write_text("no run", encoding="utf-8")
    write_index(runs.storage, str(runs.root), "churn", NOW_S)
    page = (runs.root / "churn" / "index.html").read_text(encoding="utf-8")
    rows = [re.sub(r"<[^>]+>", "|", row) for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", page)]
    shown = [[cell for cell in row.split("|") if cell][:3] for row in rows]
    heard = dt.datetime.fromtimestamp(NOW_S - 3600.0, dt.UTC)
    assert shown[0][:2] == ["2026-11-04", "Under way"]
    assert shown[1] == ["2026-11-03", "No result", f"last word {heard:%Y-%m-%d %H:%M}; submit the same run id"]
    assert [row[0] for row in shown[2:]] == ["2026-11-02", "2026-11-01"]
    assert "<h1>No result</h1>" in page
    assert re.search(r"<dt>failed</dt><dd>1<small>of the last 3</small>", page)


def test_the_page_of_a_run_whose_driver_was_killed_says_that_it_has_no_result(runs: StoredRuns) -> None:
    killed_at_night(runs, 3, silent_s=3600.0)
    page = run_page(gather(runs.storage, runs.directory(3)), NOW_S).decode()
    assert "<h1>No result</h1>" in page


# --- what it is made of ---


def test_a_run_is_told_in_one_line() -> None:
    def of(**fields: Any) -> tuple[str, str, str]:
        return tuple(headline_of(RunResult(run_id="r", name="t", **fields)))  # type: ignore[return-value]

    failed = ErrorRecord(type="DataError", message="column a is null", verdict=Verdict.DATA_REFUSED, time_s=0.0)
    assert of(verdict=Verdict.DONE, extra={"published": 3})[0] == "Published version 3"
    beside = Difference(metric="auc", rows=9, challenger=0.7, champion=0.71, finding="worse, within the tolerance")
    worse = Comparison(promote=True, reason="worse than version 2, within the tolerance", differences=(beside,))
    told = of(verdict=Verdict.DONE, extra={"published": 3}, comparison=worse)
    assert told == ("Published version 3", "worse than version 2, within the tolerance", "worse")
    later = {"published": None, "publishing": "not published: version 4 is of a later day"}
    assert of(verdict=Verdict.DONE, extra=later) == ("Trained, not published", later["publishing"], "kept")
    assert of(verdict=Verdict.DATA_REFUSED, error=failed) == ("Data refused", "column a is null", "bad")
    assert of(verdict=Verdict.NOT_READY, error=failed)[::2] == ("Data not there yet", "waits")
    assert of(verdict=Verdict.GATED)[::2] == ("Kept the champion", "kept")
    stopped = failed.model_copy(update={"type": "RunInterruptedError", "verdict": Verdict.INFRASTRUCTURE})
    assert of(verdict=Verdict.INFRASTRUCTURE, error=stopped)[0] == "Interrupted"
    assert headline_of_unended(LastWord(NOW_S - 60.0, 120.0), NOW_S, "epoch 1/3") == ("Under way", "epoch 1/3", "plain")


def began(number: int) -> AttemptBegun:
    return AttemptBegun(attempt=number, workers=2, hosts="a, b", from_step=0)


def test_attempts_of_all_submissions_are_told_and_what_became_of_a_lost_drivers() -> None:
    submitted = RunBegun(run_id="r", config="c", plan="p")
    seen = Samples(seconds=(1.0,), steps=(3,), losses=(0.5,), rows={"worker 0": (30,)})
    ended = AttemptEnded(attempt=2, workers=2, hosts=("a", "b"), from_step=0, to_step=9, duration_s=5.0)
    events: list[Event] = [submitted, began(1), CourseSeen(attempt=1, samples=seen), submitted, began(2), ended]
    told = told_by([LogEntry(float(second), event) for second, event in enumerate(events)])
    first, second = told.attempts
    assert (first.is_lost, first.ended_s, first.samples) == (True, 2.0, seen)
    assert (second.is_lost, second.result is not None, second.ended_s) == (False, True, 5.0)
    assert not told.has_ended
    assert told_by([LogEntry(0.0, submitted), LogEntry(1.0, RunEnded(verdict=0))]).has_ended


def test_the_result_of_an_earlier_submission_is_not_shown_while_a_later_one_is_under_way(runs: StoredRuns) -> None:
    runs.published(1, 1)
    assert gather(runs.storage, runs.directory(1)).result is not None
    events = Path(runs.directory(1).events)
    (events / "000009-later.jsonl").write_text(
        '{"time_s": 1999999999.0, "kind": "run", "run_id": "r", "config": "c", "plan": "p"}\n'
    )
    assert gather(runs.storage, runs.directory(1)).result is None


def test_a_result_stands_whose_last_events_were_not_stored(runs: StoredRuns) -> None:
    runs.published(1, 1)
    last = max(Path(runs.directory(1).events).iterdir())
    last.write_text("".join(line for line in last.read_text().splitlines(keepends=True) if '"kind":"end"' not in line))
    run = gather(runs.storage, runs.directory(1))
    assert not run.told.has_ended
    assert run.result is not None


def test_events_that_cannot_be_read_are_told_of_and_the_result_still_is(runs: StoredRuns) -> None:
    runs.published(1, 1)
    segments = list(Path(runs.directory(1).events).iterdir())
    for segment in segments:
        segment.write_text("{torn")
    run = gather(runs.storage, runs.directory(1))
    assert [attempt.number for attempt in run.told.attempts] == [1, 2]
    assert run.problems == (f"{len(segments)} of the files with the run's events cannot be read",)
    assert "cannot be read" in run_page(run, NOW_S).decode()


def test_rows_a_second_are_taken_between_heartbeats_not_between_samples() -> None:
    samples = Samples(
        seconds=(1.0, 2.0, 3.0, 4.0, 5.0), steps=(1, 2, 3, 4, 5), losses=(None,) * 5, rows={"w": (0, 0, 60, 60, 100)}
    )
    assert rates(SeenAttempt(1, 0.0, 1, "a", 0, samples=samples), "w") == ([1.0, 3.0, 5.0], [30.0, 20.0])


# --- drift ---


@pytest.mark.parametrize("later", [False, True])
def test_the_data_is_drawn_beside_that_of_the_model_before_its_own(runs: StoredRuns, later: bool) -> None:
    runs.serve(1, 7, drift=0.3)
    runs.published(2, 8)
    runs.serve(2, 8, drift=0.02)
    if later:
        runs.serve(3, 9, drift=0.0)
    drift = gather(runs.storage, runs.directory(2)).drift
    assert drift is not None
    assert drift.baseline is not None
    assert drift.baseline.name == "version 7 (run 2026-11-01)"
    assert drift.columns[1].distance == pytest.approx(0.28, abs=0.01)


def test_the_data_of_a_run_that_did_not_publish_is_drawn_beside_its_champions(runs: StoredRuns) -> None:
    runs.serve(1, 13, drift=0.3)
    runs.kept(2)
    runs.serve(3, 14, drift=0.0)
    drift = gather(runs.storage, runs.directory(2)).drift
    assert drift is not None
    assert drift.baseline is not None
    assert drift.baseline.version == 13
    page = run_page(gather(runs.storage, runs.directory(2)), NOW_S).decode()
    assert "version 13 (run 2026-11-01)" in page


def test_the_index_names_the_version_that_readers_have(runs: StoredRuns) -> None:
    runs.published(1, 7)
    runs.serve(1, 7, drift=0.0)
    write_index(runs.storage, str(runs.root), "churn", NOW_S)
    index = (runs.root / "churn" / "index.html").read_text()
    assert "<dt>current version</dt><dd>7<small>of 2026-11-01</small>" in index


def test_a_density_says_which_share_of_the_numbers_lies_where() -> None:
    even = Spread(count=100, min=0.0, max=100.0, quantiles=tuple(float(n) for n in range(1, 100)))
    edges = shared_edges([even])
    assert (edges[0], edges[-1]) == (1.0, 99.0)
    shares = density(even, edges)
    assert shares.sum() == pytest.approx(0.98)
    assert np.ptp(shares) < 1e-9


def test_a_number_that_many_rows_have_is_a_peak_in_its_own_bin() -> None:
    half = Spread(count=100, min=0.0, max=10.0, quantiles=(*[0.0] * 50, *[n * 10 / 49 for n in range(49)]))
    shares = density(half, np.linspace(0.0, 10.0, 11))
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] == pytest.approx(0.55, abs=0.02)
    same = Spread(count=5, min=3.0, max=3.0, quantiles=(3.0,) * 99)
    assert density(same, shared_edges([same])).max() == pytest.approx(1.0)


def test_columns_are_labels_and_then_in_the_order_of_their_change_with_what_has_come_and_gone() -> None:
    then, now = statistics(8, 0.0), statistics(8, 0.2)
    columns = {name: column for name, column in now.columns.items() if name != "f1"}
    columns["new"] = columns.pop("f2")
    drift = drift_of(now.model_copy(update={"columns": columns}), Baseline("before", then), [])
    label, *features = drift.columns
    assert label.name == "churned"
    distances = [column.distance or 0.0 for column in features]
    assert distances == sorted(distances, reverse=True)
    assert features[0].name == "country"
    assert drift.gone == ("f1", "f2")
    assert {column.name: column.remark for column in drift.columns if column.remark} == {"new": "has come"}


def test_of_very_many_columns_the_most_changed_are_drawn_and_it_says_so(tmp_path: Path, undrawn: None) -> None:
    runs = StoredRuns(tmp_path / "runs", columns=DRAWN + 30)
    runs.published(1, 1)
    runs.published(2, 2)
    page = run_page(gather(runs.storage, runs.directory(2)), NOW_S).decode()
    assert page.count("Values of ") == DRAWN
    assert "30 more columns, which are not drawn" in page


# --- by hand ---


def test_a_page_is_made_anew_of_what_is_stored_also_while_the_run_is_under_way(
    runs: StoredRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs.under_way(1)
    assert main(["report", "churn/2026-11-01", "--output", str(runs.root)]) == 0
    assert capsys.readouterr().out == "churn-2026-11-01.html\n"
    assert "<h1>Under way</h1>" in Path("churn-2026-11-01.html").read_text()
    assert main(["report", "churn/2026-11-01", "--output", str(runs.root), "--to", "no/such/folder.html"]) == 2
    assert "--to no/such/folder.html cannot be written" in capsys.readouterr().err
