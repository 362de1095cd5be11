"""Expectations of a run from its configuration, its plan and earlier runs: pure functions."""

from __future__ import annotations

import datetime as dt
import statistics
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from sparktf.config.job import JobConfig
from sparktf.driver.gang.placement import best_hosts
from sparktf.driver.plan.plan import Plan
from sparktf.nightly.earlier_runs import ending_s
from sparktf.preview.forecast import (
    DataForecast,
    FormerRuns,
    HostForecast,
    LocalityForecast,
    StreamForecast,
    TimesForecast,
    UpdatesForecast,
)
from sparktf.results.result import RunResult
from sparktf.results.time_limit import Took, reserve_s, time_limit
from sparktf.sequence import Integers, Stream, batch_shares


def data_of(plan: Plan, planned: str) -> DataForecast:
    """Returns the data of a plan; `planned` is "now", or "before" for a stored one."""
    streams = [StreamForecast(stream=stream.value, fed_by="spark") for stream in plan.staged]
    streams += [
        StreamForecast(
            stream=stream.value,
            fed_by="trainers",
            rows=plan.rows(stream),
            nbytes=plan.nbytes(stream),
            row_groups=len(table.rows),
            shuffle_blocks=len(table.block_rows),
            files=len(np.unique(table.file)),
        )
        for stream, table in plan.tables.items()
    ]
    return DataForecast.model_validate({"planned": planned, "files": len(plan.files), "streams": streams})


def wanted_hosts(config: JobConfig, plan: Plan) -> list[str]:
    """Returns the hosts to request executors at, one entry for each reader: where most of the data is stored."""
    return best_hosts(plan.host_nbytes(), config.cluster.shape.workers, [])


def asked_at(hosts: Sequence[str], plan: Plan, fits: Callable[[str], int | None]) -> tuple[HostForecast, ...]:
    """Returns the distinct hosts to request executors at; `fits` returns how many a host has room for now."""
    held = plan.host_nbytes()
    return tuple(
        HostForecast(host=host, executors=count, nbytes=sum(held.get(host, {}).values()), fits=fits(host))
        for host, count in Counter(hosts).items()
    )


def dealt_to(config: JobConfig, plan: Plan, hosts: Sequence[str]) -> tuple[Integers, float | None]:
    """Deals the first epoch of training to nodes on some hosts, as the run would.

    Returns:
        The rows of each node, and the share of the bytes stored on their reader's host: None if no host is known.
    """
    data, rows = config.data, plan.rows(Stream.TRAIN)
    dealt = plan.assignments(Stream.TRAIN, 0, [(0, rows)], hosts, rebalance=data.rebalance, locality=data.locality)
    if not plan.hosts:
        return dealt.shares.rows, None
    slices, table = dealt.shares.slices, plan.tables[Stream.TRAIN]
    host = np.repeat(np.array(dealt.hosts, np.int64), np.diff(dealt.shares.ends, prepend=0))
    part = slices.rows / table.block_rows[slices.block]  # of a block that is cut, each has about as much to read
    nbytes = np.bincount(table.block, table.nbytes)[slices.block] @ part
    return dealt.shares.rows, float(table.block_hosts.held(slices.block, host) @ part / nbytes) if nbytes else 0.0


def updates_of(config: JobConfig, rows: int, node_rows: Integers | None) -> UpdatesForecast:
    """Returns the number of updates in an epoch of sparktf's own loop; `node_rows`, if known: int64 [n_workers]."""
    train, together = config.train, config.cluster.updates_together
    per_epoch = -(-rows // (train.batch_size * (train.replicas_to_aggregate or 1)))
    if together and node_rows is not None:
        shares = batch_shares(train.batch_size, len(node_rows))
        per_epoch = max(-(-count // share) for count, share in zip(node_rows.tolist(), shares, strict=True))
    total = per_epoch * train.epochs
    limited = train.max_steps is not None and train.max_steps <= total
    exact = together and node_rows is not None and (config.data.rebalance or train.epochs == 1)
    return UpdatesForecast(
        per_epoch=per_epoch,
        epochs=train.epochs,
        total=min(total, train.max_steps or total),
        exact=exact,
        may_end_before=train.may_stop,
        limited_by="train.max_steps" if limited else "",
    )


def expected_locality(
    hosts: Sequence[str], share: float | None, plan: Plan, fits: Callable[[str], int | None] | None
) -> LocalityForecast:
    """Returns where nodes on some hosts read the bytes; `fits` as for `asked_at`, None if no host is requested."""
    asked = () if fits is None else asked_at(hosts, plan, fits)
    return LocalityForecast(share=share, hosts_with_data=len(plan.hosts), asked=asked)


def learned(runs: Sequence[RunResult]) -> FormerRuns:
    """Returns a summary of earlier runs, given newest first; results do not contain sizes."""
    fresh = [run for run in runs if run.attempts and run.attempts[0].from_step == 0 and run.seconds.get("train")]
    rates = [run.rows_trained / run.seconds["train"] for run in fresh if run.rows_trained]
    phases = dict.fromkeys(phase for run in fresh for phase in run.seconds)
    whole = [epoch.planned for run in runs[:1] for epoch in run.rows if epoch.complete]
    endings = [run.ending for run in runs if run.ending is not None]
    return FormerRuns(
        runs=tuple(run.run_id for run in runs),
        rows_s=statistics.median(rates) if rates else None,
        epoch_rows=whole[-1] if whole else None,
        seconds={phase: statistics.median(run.seconds.get(phase, 0.0) for run in fresh) for phase in phases},
        evaluation_s=statistics.median(ending.evaluation_s for ending in endings) if endings else None,
        checkpoint_s=statistics.median(ending.checkpoint_s for ending in endings) if endings else None,
        ending_s=ending_s(runs),
    )


def expected_times(config: JobConfig, rows_left: int | None, former: FormerRuns, now_s: float) -> TimesForecast:
    """Returns the times of the run if it began now and went as those before; `rows_left` is None if unknown."""
    train = config.train
    train_s = rows_left / former.rows_s if rows_left is not None and former.rows_s else None
    others = {phase: s for phase, s in former.seconds.items() if phase not in ("train", "wait")}
    duration_s = None if train_s is None else train_s + sum(others.values())
    limit, reserve = time_limit(train, now_s, now_s), None
    if limit is not None:
        took = Took(0.0, former.evaluation_s or 0.0, former.checkpoint_s or 0.0, former.ending_s)
        reserve = reserve_s(train.reserve, took)
    in_time = epochs = None
    if limit is not None and reserve is not None and train_s is not None and rows_left:
        before_s = sum(s for phase, s in others.items() if phase != "publish")
        left_s = max(limit.left_s - reserve - before_s, 0.0)
        in_time = train_s <= left_s
        epochs = None if in_time else round(train.epochs * left_s / train_s, 2)
    return TimesForecast(
        begins=_time(now_s),
        train_s=train_s,
        duration_s=duration_s,
        ends=None if duration_s is None else _time(now_s + duration_s),
        limit="" if limit is None else limit.said,
        due=None if limit is None else _time(now_s + limit.left_s),
        reserve_s=reserve,
        in_time=in_time,
        epochs_in_time=epochs,
    )


def _time(wall_s: float) -> str:
    return dt.datetime.fromtimestamp(wall_s, dt.UTC).isoformat(timespec="seconds")
