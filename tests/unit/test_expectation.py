"""What follows from a configuration, a plan and earlier runs, held against what a run would really do."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lakes import lake_config, placed, plan_lake, write_lake

from sparktf.config.job import JobConfig
from sparktf.preview.expectation import (
    dealt_to,
    expected_locality,
    expected_times,
    learned,
    updates_of,
    wanted_hosts,
)
from sparktf.preview.forecast import FormerRuns
from sparktf.results.result import RunResult
from sparktf.results.time_limit import Ending
from sparktf.sequence import Stream, batch_shares


def config(workers: int, batch_size: int = 64, *, data: dict[str, Any] | None = None, **train: Any) -> JobConfig:
    plain = lake_config(Path("/lake")).model_dump(exclude_unset=True)
    plain["data"] |= data or {}
    return JobConfig.model_validate(
        {**plain, "cluster": {"workers": workers}, "train": {"batch_size": batch_size, **train}}
    )


@pytest.mark.parametrize(("hosts", "replication", "workers"), [(8, 3, 4), (3, 1, 5), (20, 2, 20), (6, 6, 2)])
@pytest.mark.parametrize("rebalance", [True, False])
def test_the_expected_share_of_local_bytes_is_that_of_the_pieces_that_are_dealt(
    hosts: int, replication: int, workers: int, rebalance: bool
) -> None:
    plan = placed(hosts, replication, 400, block_rows=60_000)
    job = config(workers, data={"rebalance": rebalance})
    where = wanted_hosts(job, plan)
    assert len(where) == workers
    rows, share = dealt_to(job, plan, where)
    dealt = plan.assignments(Stream.TRAIN, 0, [(0, plan.rows(Stream.TRAIN))], where, rebalance=rebalance)
    splits = [split for node in dealt for piece in node.pieces for split in piece.splits]
    assert rows.tolist() == [node.rows for node in dealt]
    local = sum(split.local_nbytes for split in splits) / sum(split.nbytes for split in splits)
    # Where a block is cut, both who read a part of it count its row groups whole.
    assert share == pytest.approx(local, abs=0.001 if not rebalance else 0.03)


def test_hosts_that_hold_nothing_read_nothing_beside_them() -> None:
    plan = placed(4, 2, 100)
    assert dealt_to(config(2), plan, ["elsewhere", ""])[1] == 0.0
    assert dealt_to(config(2), plan, ["n0.example.org", "n1"])[1] == pytest.approx(1, abs=0.6)


def test_where_nobody_knows_hosts_no_share_is_said(tmp_path: Path) -> None:
    plan = plan_lake(write_lake(tmp_path))
    assert dealt_to(config(2), plan, ["here", "here"])[1] is None


def test_full_hosts_are_told_of_among_those_asked_for() -> None:
    plan = placed(3, 1, 90)
    found = expected_locality(wanted_hosts(config(4), plan), 0.9, plan, {"n0.example.org": 0}.get)
    assert found.hosts_with_data == 3
    assert sum(host.executors for host in found.asked) == 4
    assert {host.host: host.fits for host in found.asked}["n0.example.org"] == 0
    assert sum(host.nbytes for host in found.asked) == plan.nbytes(Stream.TRAIN)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 128, 999, 1000])
@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_an_epoch_has_as_many_updates_as_its_longest_share_has(rows: int, workers: int) -> None:
    parts = np.diff(rows * np.arange(workers + 1) // workers)  # as rows are dealt
    left, updates = parts.copy(), 0
    while left.any():
        left = np.maximum(left - batch_shares(64, workers), 0)
        updates += 1
    found = updates_of(config(workers, epochs=3), rows, parts)
    assert (found.per_epoch, found.total, found.exact) == (updates, 3 * updates, True)


def test_updates_end_with_max_steps_and_may_end_before() -> None:
    found = updates_of(config(1, epochs=3, max_steps=20, max_seconds=60), 640, np.array([640]))
    assert (found.total, found.limited_by, found.may_end_before) == (20, "train.max_steps", True)
    found = updates_of(config(1, max_steps=20), 640, np.array([640]))
    assert (found.total, found.limited_by) == (10, "")


def test_whose_workers_do_not_wait_has_about_as_many_updates_as_batches() -> None:
    servers = {"strategy": "parameter_server", "workers": 2, "ps": 1}
    job = config(1).model_copy(update={"cluster": type(config(1).cluster).model_validate(servers)})
    found = updates_of(job, 1000, np.array([500, 500]))
    assert (found.per_epoch, found.exact) == (16, False)


def run(run_id: str, *, from_step: int = 0, **changed: Any) -> RunResult:
    attempt = {"attempt": 1, "workers": 1, "hosts": [], "from_step": from_step, "to_step": 1, "duration_s": 1.0}
    return RunResult.model_validate({"run_id": run_id, "name": "t", "verdict": 0, "attempts": [attempt], **changed})


def test_earlier_runs_are_summed_up_by_their_medians() -> None:
    runs = [
        run("3", rows_trained=900, seconds={"train": 1.0}, from_step=5),  # it began in the middle: says no speed
        run("2", rows_trained=100, seconds={"train": 10.0, "publish": 4.0}, ending=Ending(total_s=6, evaluation_s=2)),
        run("1", rows_trained=300, seconds={"train": 10.0, "reserve": 8.0}, ending=Ending(total_s=9, evaluation_s=4)),
    ]
    found = learned(runs)
    assert (found.runs, found.rows_s, found.evaluation_s, found.ending_s) == (("3", "2", "1"), 20.0, 3.0, 10.0)
    assert found.seconds == {"train": 10.0, "publish": 2.0, "reserve": 4.0}
    assert learned([]) == FormerRuns(runs=())


NOON_S = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC).timestamp()
FORMER = FormerRuns(
    runs=("1",), rows_s=100.0, seconds={"wait": 500.0, "reserve": 30.0, "train": 9.0, "publish": 20.0}, ending_s=80.0
)


def test_times_are_those_of_the_phases_before_at_the_speed_of_then() -> None:
    found = expected_times(config(1), 36_000, FORMER, NOON_S)
    assert (found.train_s, found.duration_s) == (360.0, 410.0), "nobody waits for data that is there"
    assert (found.begins, found.ends) == ("2026-11-20T12:00:00+00:00", "2026-11-20T12:06:50+00:00")
    assert (found.limit, found.due, found.in_time) == ("", None, None)


@pytest.mark.parametrize(
    ("until", "in_time", "epochs"), [("12:20", True, None), ("12:08", False, 3.67), ("12:02", False, 0.0)]
)
def test_a_deadline_is_held_against_what_is_left_before_its_reserve(
    until: str, in_time: bool, epochs: float | None
) -> None:
    found = expected_times(config(1, epochs=4, deadline=f"{until} UTC"), 36_000, FORMER, NOON_S)
    assert found.reserve_s == 120.0  # half as much again as the end of the slowest run took
    assert (found.in_time, found.epochs_in_time) == (in_time, epochs)


def test_what_nobody_knows_is_not_guessed() -> None:
    for rows_left, former in ((None, FORMER), (36_000, FormerRuns(runs=()))):
        found = expected_times(config(1, max_seconds=60), rows_left, former, NOON_S)
        assert (found.train_s, found.duration_s, found.ends, found.in_time) == (None, None, None, None)
        assert found.due == "2026-11-20T12:01:00+00:00"
