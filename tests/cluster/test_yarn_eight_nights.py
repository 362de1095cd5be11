"""Nights of one schedule on YARN as its owners live through them, and the morning after.

Why customers leave turns day by day (`churn.py`), so that a night's model is better than the one before unless
something is wrong. A run learns from the day before, and is measured by its own day.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from cluster.churn import ROWS, date_of
from cluster.containers import containers_of
from cluster.nights import EPOCHS, Night, Schedule
from cluster.scores import Scores, Seen, delivered
from cluster.submission import REPO, SPARKTF, Submission, tags
from integration.processes import command_of

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for
from sparktf.results.carried import CarriedVariable


@pytest.mark.timeout(1200)
def test_two_nights_and_the_morning_after(hadoop: MiniHadoop, tmp_path: Path) -> None:
    """What YARN and HDFS have a part in of the eight: all else is as it is on one machine."""
    folder = tmp_path / "two"
    folder.mkdir()
    nights = Schedule(hadoop, folder)
    nights.deliver(0)
    assert_first(nights, killed_twice(nights, 1, version=1))
    assert_better_than(late_data(nights, 2), 1)
    with scored(nights, 2):
        filled_up_already(nights, [1, 2])
        looked_at(nights, [1, 2])
        assert_page(nights, 2, "Published version 2", "good enough beside version 1")
    rolled_back(nights, 2)


@pytest.mark.more(
    "cluster/test_yarn_eight_nights.py::test_two_nights_and_the_morning_after",
    "trainer/test_stopping.py::test_a_run_that_has_little_time_ends_inside_an_epoch_and_publishes_what_it_has",
    "unit/test_scored_partition.py::test_readers_find_whole_partitions_though_writers_are_killed_at_every_call",
    "integration/test_first_night.py::test_the_first_night_is_as_its_page_says",
    "integration/test_scoring.py::test_the_job_is_a_script_for_spark_submit_that_scores_from_table_to_table_of_the_hive_metastore",
    "integration/test_nightly.py::test_a_night_of_noisy_labels_changes_nothing_for_readers",
    "integration/test_statistics.py::test_a_night_whose_data_has_drifted_is_refused_and_runs_once_it_is_mended",
    "trainer/test_warm_start.py::test_a_run_begins_with_another_ones_weights_and_its_tables_entry_by_entry",
)
@pytest.mark.timeout(1200)
def test_eight_nights_and_the_morning_after(hadoop: MiniHadoop, tmp_path: Path) -> None:
    folder = tmp_path / "eight"
    folder.mkdir()
    nights = Schedule(hadoop, folder)
    first_night(nights)
    better_night(nights)
    late_data(nights, 3)
    with scored(nights, 3):
        pass
    scored_again_and_again(nights, 3, [1, 2])
    corrupt_data(nights)
    wrong_labels(nights)
    killed_twice(nights, 6, version=4)
    changed_schema(nights)
    deadline(nights)
    withdrawn = rolled_back(nights, 8)
    filled_up(nights, withdrawn, 8, [9, 10])
    looked_at(nights, range(1, 11))
    assert_page(nights, 6, "Published version 4", "good enough beside version 3")
    assert_page(nights, 8, f"Published version {withdrawn}", f"good enough beside version {withdrawn - 1}")
    looked_at_what_was_kept_back(nights)


def first_night(nights: Schedule) -> None:
    """Night 1: there is no model, and in the morning there is one, since the gate has nothing to compare it with."""
    nights.deliver(0)
    nights.deliver(1)
    assert_first(nights, nights.night(1, 0))


def assert_first(nights: Schedule, night: Night) -> None:
    """Asserts that it trained from nothing, and that its model is the one that readers have."""
    assert "no model of churn is published: trains from scratch" in night.said
    assert night.result.carried is None
    nights.assert_published(1, day=1)
    assert night.result.extra["published"] == 1
    assert night.result.comparison is not None
    assert (night.result.comparison.promote, night.result.comparison.champion) == (True, "")
    assert_all_epochs(night)


def better_night(nights: Schedule) -> None:
    """Night 2: training begins with the published weights, of which none is lost, and comes to better ones."""
    nights.deliver(2)
    night = nights.night(2, 0)
    nights.assert_published(2, day=2)
    assert_all_epochs(night)
    assert all(variable.how != "new" for variable in carried_from(night, 1))
    assert nights.manifest(2)["full_date"] == date_of(1)
    assert_better_than(night, 1)


def late_data(nights: Schedule, day: int) -> Night:
    """A night whose partition comes late, submitted twice at once. One submission owns the run, and waits for the data
    before it asks for anything; the other ends with 7 meanwhile. Then the first one goes on.
    """
    with ExitStack() as stack:
        both = [stack.enter_context(nights.submit(day, *tags("churn"), copy=name)) for name in ("one", "other")]
        wait_for("one of both has ended", lambda: "" if not all(one.is_running for one in both) else "neither has", 200)
        other, owner = sorted(both, key=lambda one: one.is_running)
        assert other.wait() == 7, other.output()
        assert f"run churn/{date_of(day)} is owned by application {owner.application().id}" in other.output()
        lacking = rf"date={date_of(day)} is missing \(1 of 2"
        wait_for_line(owner, rf"^the data is not ready, waiting .* 5 min: {lacking}")
        held = {process.info["environ"]["CONTAINER_ID"] for process in containers_of(owner.application().id)}
        assert len(held) <= 2, "YARN's master, and the one executor that Spark starts with"
        nights.deliver(day)
        night = nights.ended(owner, day, 0)
    owner.assert_is_done("client", date_of(day), EPOCHS)
    assert night.result.application == owner.application().id
    nights.assert_published(day, day)
    assert dict(night.row["seconds"])["wait"] > 0
    assert_all_epochs(night)
    assert carried_from(night, day - 1)
    said = nights.trainers_log(day)
    assert "a fresh process loaded the exported model, and its predictions agree: 32 rows" in said
    return night


@contextmanager
def scored(nights: Schedule, day: int) -> Iterator[None]:
    """A day is scored with the model that is published as that begins, the day's own, while something else happens."""
    scores = Scores(nights)
    with scores.submit(day) as submission:
        yield
        assert submission.wait() == 0, submission.output()
    assert scores.seen(day) == Seen(str(day), delivered(day))


def scored_again_and_again(nights: Schedule, day: int, runs: Sequence[int]) -> None:
    """Jobs that score the day again with the models of other runs are killed at random moments: readers find the one or
    the other, whole. Submitted once more, by Spark's own command, the day has each customer once.
    """
    scores, everybody = Scores(nights), delivered(day)
    took_s = scores.score(day)
    expected = Seen(str(day), everybody)
    for run in runs:
        model = f"run:{date_of(run)}"
        scores.kill_at_random(day, took_s, "--model", model)
        seen = scores.seen(day)
        assert seen in (expected, Seen(model, everybody), None)
        expected = seen or expected
    scores.score_with_plain_spark(day)
    assert scores.seen(day) == Seen(str(day), everybody)


def corrupt_data(nights: Schedule) -> None:
    """Night 4: calls come in other units: refused with column, figure and bound, nothing trained, the model stays."""
    nights.deliver(4, corrupt=True)
    night = nights.night(4, 3)
    cause = night.row["cause"]
    above = r"column calls: the greatest value is \d+.*, above 10 \(data\.checks\.refuse\.columns\.calls\.max\)"
    assert re.search(above, cause), cause
    assert cause in night.said
    assert (night.result.rows, night.result.attempts) == ((), ())
    nights.assert_published(3, day=3)


def wrong_labels(nights: Schedule) -> None:
    """Night 5: day 4 comes again, its labels say the opposite, which no check sees: the gate keeps the champion."""
    nights.deliver(4, noise=True)
    nights.deliver(5)
    night = nights.night(5, 5)
    nights.assert_published(3, day=3)
    assert nights.versions() == [1, 2, 3]
    comparison = night.result.comparison
    assert comparison is not None
    assert (comparison.promote, comparison.champion_version) == (False, 3)
    worse = {(found.slice, found.finding) for found in comparison.differences if found.metric == "auc"}
    assert ("", "worse") in worse
    assert re.search(r"the gate keeps version 3: auc", night.row["cause"]), night.row
    assert night.row["cause"] in night.said
    assert (night.row["champion_version"], night.row["version"]) == (3, None)
    assert_all_epochs(night)


def killed_twice(nights: Schedule, day: int, version: int) -> Night:
    """A night whose ApplicationMaster is killed, and so is its successor, which goes on from what was committed,
    whereupon YARN gives up, and the schedule's script as well. A backfill goes on from there, too, and publishes.
    """
    nights.deliver(day)
    gate = nights.folder / "gate"
    os.mkfifo(gate)
    command = nights.folder / "sparktf"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(SPARKTF)} "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    gated = ("--set", "train.callbacks=churn_gate:callbacks", "--set", f"params.gate={nights.folder}")
    with nights.submit(
        day,
        *("--set", "submit.deploy_mode=cluster", *gated),
        program=("sh", REPO / "yarn/schedules/nightly.sh"),
        environment={"SPARKTF": str(command), "SPARKTF_TRIES": "1"},
    ) as submission:
        wait_for_the_trainer_at_the_gate(nights, submission, day)
        wait_for_line(submission, r"^attempt 1: .*, from (?!step )")  # who is killed tells no more of what it has said
        kill_application_master(submission.application().id)
        wait_for_line(submission, r"^attempt 1: .*, from step [1-9]\d*$")
        kill_application_master(submission.application().id)
        assert submission.wait() == 4, submission.output()
        given_up, lost = submission.output(), submission.ended_application()
    assert lost.final_status == "FAILED"
    gate.unlink()  # who comes now makes a file of it, and is through
    with nights.backfill(day, day, *gated) as again:
        night = nights.ended(again, day, 0)
    assert night.result.application != lost.id
    # What was trained before and after are one run: each row once in each epoch, and no update twice.
    assert [rows.complete for rows in night.result.rows] == [True] * EPOCHS
    assert night.result.rows_trained == EPOCHS * ROWS
    [attempt] = night.result.attempts
    assert (2 * attempt.from_step, attempt.to_step) == (night.result.steps, night.result.steps)
    nights.assert_published(version, day=day)
    return night._replace(said=given_up + night.said)


def changed_schema(nights: Schedule) -> None:
    """Night 7: there is a new column, and a new country: what is known of the others is carried over, by entry."""
    nights.deliver(7)
    nights.job["data"]["inputs"]["tenure"] = "tenure"
    nights.job["params"]["tenure"] = True
    night = nights.night(7, 0)
    nights.assert_published(5, day=7)
    warned = f"column tenure: it has come, and was not in version 4 (run {date_of(6)})"
    assert any(warned in warning for warning in night.result.warnings), night.result.warnings
    assert warned in night.said
    assert_all_epochs(night)
    became = {variable.name: variable for variable in carried_from(night, 4)}
    [table] = [variable for name, variable in became.items() if "of_country" in name]
    assert (table.how, table.new, table.left) == ("entries", 1, 0)
    assert all((variable.how == "new") == ("of_tenure" in name) for name, variable in became.items())
    assert_better_than(night, 4)


def deadline(nights: Schedule) -> None:
    """Night 8: its epochs would last until noon; it ends in time for its deadline, with a model."""
    nights.deliver(8)
    version = nights.current() + 1
    stop = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1.5 * nights.slowest_start_s + 5)
    due = (stop + dt.timedelta(minutes=2)).replace(second=0, microsecond=0)
    reserve_s = round((due - stop).total_seconds())
    night = nights.night(
        8,
        0,
        *("--set", "train.epochs=100000"),
        *("--set", f"train.deadline={due:%H:%M} UTC", "--set", f"train.reserve={reserve_s}s"),
    )
    nights.assert_published(version, day=8)
    assert dt.datetime.fromisoformat(nights.manifest(version)["published"]) < due
    assert night.result.stopped is not None
    assert "deadline" in night.result.stopped.text
    assert night.result.stopped.text in night.said
    assert 0 < night.result.epochs < 100_000


def rolled_back(nights: Schedule, day: int) -> int:
    """The morning: the model of the last night, that of a day, is taken back. Returns its version."""
    withdrawn = nights.current()
    before = withdrawn - 1
    said = nights.sparktf("rollback", "churn")
    assert f"version {before} is current, and no longer {withdrawn}" in said
    assert (nights.current(), nights.versions()) == (before, [*range(1, withdrawn)])
    models = nights.sparktf("models", "churn")
    assert re.search(rf" {before} .*current ", models), models
    assert re.search(rf" {withdrawn} .*withdrawn .*{date_of(day)}", models), models
    return withdrawn


def filled_up_already(nights: Schedule, days: Sequence[int]) -> None:
    """Days in a row whose nights have been run are left as they are."""
    with nights.backfill(days[0], days[-1]) as again:
        assert again.wait() == 0, again.output()
    for day in days:
        assert re.search(rf"{date_of(day)}.*done before", again.output()), again.output()


def filled_up(nights: Schedule, withdrawn: int, last: int, days: Sequence[int]) -> None:
    """Days that nobody ran, after the last one that somebody did, are filled in, each upon the one before."""
    before = nights.current()
    for day in days:
        nights.deliver(day)
    said = nights.sparktf("backfill", "job.yaml", "--from", date_of(last), "--to", date_of(days[-1]))
    assert re.search(rf"{date_of(last)}.*done before", said)
    newest = withdrawn + len(days)
    nights.assert_published(newest, day=days[-1])
    for version, day in enumerate(days, start=withdrawn + 1):
        result = nights.result(day)
        assert (result.verdict, result.extra["published"]) == (0, version)
        assert result.carried is not None
        assert result.carried.source == f"version {before}"
        assert [(rows.planned, rows.trained, rows.complete) for rows in result.rows] == [(ROWS, ROWS, True)] * EPOCHS
        before = version
    assert nights.versions() == [*range(1, withdrawn), *range(withdrawn + 1, newest + 1)]
    models = nights.sparktf("models", "churn")
    assert re.search(rf" {newest} .*current .*{date_of(days[-1])}", models), models
    assert re.search(rf" {withdrawn} .*withdrawn .*{date_of(last)}", models), models


def looked_at(nights: Schedule, days: Sequence[int]) -> None:
    """What people look at tells of all nights: the list, and the pages."""
    listed = nights.sparktf("runs", "churn").splitlines()[1:]
    assert sorted(line.split()[0] for line in listed) == [f"churn/{date_of(day)}" for day in days]
    index = nights.page("index.html")
    links = [link.get("href") for link in index.iter("a") if link.getparent().tag == "th"]
    assert links == [f"{date_of(day)}/report.html" for day in reversed(days)]


def looked_at_what_was_kept_back(nights: Schedule) -> None:
    """And of nights that went badly: the list, a night, two nights beside each other, and the pages."""
    failed = nights.sparktf("runs", "churn", "--failed").splitlines()[1:]
    assert [re.findall(r"gated|data refused", line)[0] for line in failed] == ["gated", "data refused"]
    assert "the gate keeps version 3" in nights.sparktf("show", f"churn/{date_of(5)}")
    different = nights.sparktf("diff", f"churn/{date_of(6)}", f"churn/{date_of(7)}")
    assert re.search(r"data\.inputs\.tenure\b.*tenure", different), different
    assert re.search(r"validation auc\b.*[+-]0\.\d+", different), different
    assert_page(nights, 4, "Data refused", "column calls: the greatest value is")
    assert_page(nights, 5, "Kept the champion, version 3", "auc is worse")


def assert_page(nights: Schedule, day: int, title: str, reason: str) -> None:
    """Asserts what a night's page says in the first place."""
    page = nights.page(f"{date_of(day)}/report.html")
    assert page.findtext(".//h1") == title
    assert reason in page.findtext(".//p[@class='reason']")


# ---- what is so of several nights ----


def assert_all_epochs(night: Night) -> None:
    """Asserts that each row was trained exactly once in each epoch, by one attempt."""
    assert [rows.complete for rows in night.result.rows] == [True] * EPOCHS
    assert night.result.rows_trained == EPOCHS * ROWS
    assert len(night.result.attempts) == 1


def carried_from(night: Night, version: int) -> tuple[CarriedVariable, ...]:
    """Returns what became of each variable; asserts that training began with the weights of a version."""
    assert night.result.carried is not None
    assert night.result.carried.source == f"version {version}"
    assert f"begins from version {version}" in night.said
    return night.result.carried.variables


def assert_better_than(night: Night, version: int) -> None:
    """Asserts that the night's model is better than a version on the same rows, beyond chance."""
    comparison = night.result.comparison
    assert comparison is not None
    assert (comparison.promote, comparison.champion_version) == (True, version)
    [auc] = [found for found in comparison.differences if (found.metric, found.slice) == ("auc", "")]
    assert auc.finding == "good"
    assert auc.low is not None
    assert auc.low > 0
    assert auc.challenger > 0.8
    assert dict(night.row["champion_metrics"])["auc"] == auc.champion


# ---- what is done to them ----


def wait_for_line(submission: Submission, pattern: str) -> None:
    """Waits until a line of the output begins as the pattern says."""

    def missing() -> str:
        assert submission.is_running, submission.output()
        return "" if re.search(pattern, submission.output(), re.MULTILINE) else "it has not"

    wait_for(f"the submission says {pattern!r}", missing, 200, lambda: submission.output()[-3000:])


def wait_for_the_trainer_at_the_gate(nights: Schedule, submission: Submission, day: int) -> None:
    """Waits until the trainer has come to the second epoch, and the first one is committed."""
    run, names = f"{nights.runs}/churn/{date_of(day)}", nights.hadoop.hdfs.names

    def missing() -> str:
        assert submission.is_running, submission.output()
        if not list(nights.folder.glob("here-*")):
            return "it has not"
        checkpoints = names(f"{run}/checkpoints") if "checkpoints" in names(run) else []
        return "" if any(name.startswith("step-") for name in checkpoints) else "nothing is committed"

    wait_for("the trainer has come to the gate", missing, 200, lambda: submission.output()[-3000:])


def kill_application_master(application: str) -> None:
    """Kills the JVM in which the driver's ApplicationMaster is; its container ends with it."""
    masters: list[psutil.Process] = [
        process
        for process in containers_of(application)
        if process.name() == "java" and any("deploy.yarn.ApplicationMaster" in word for word in command_of(process))
    ]
    [master] = masters
    master.send_signal(signal.SIGKILL)
