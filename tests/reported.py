"""Runs whose reports are looked at: written by the product's own classes, as runs of weeks would have left them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparktf.config.job import JobConfig
from sparktf.config.load import show_config
from sparktf.driver.event_log import EventLog
from sparktf.errors import ErrorRecord, Verdict
from sparktf.published.serving import CURRENT, ModelManifest
from sparktf.results.carried import Carried, CarriedVariable
from sparktf.results.comparison import Anchored, Comparison, Difference, Judgement
from sparktf.results.events import (
    AttemptBegun,
    AttemptEnded,
    CourseSeen,
    Event,
    LineSaid,
    LossOutlived,
    MetricsSeen,
    RunBegun,
    RunEnded,
    Samples,
)
from sparktf.results.outlived import Outlived
from sparktf.results.pace import NodePace, Percentiles
from sparktf.results.result import AttemptResult, NodeInput, NodeResult, RunResult
from sparktf.rundir import STATISTICS, RunDirectory
from sparktf.sequence import Stream
from sparktf.statistics.column_statistics import RANKS, ColumnStatistics, Spread, TableStatistics, ValueCount
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.checkpoints import MANIFEST
from sparktf.topology import NodeId, Role

NAME = "churn"
HOSTILE = "<script>alert('x')</script> $\\frac{ & \"quoted\""
"""A name as nobody should have, and anybody may."""

_BEGAN = dt.datetime(2026, 11, 1, 2, 0, tzinfo=dt.UTC)
_WORKERS = 4
_HOSTS = ("dn1.example", "dn2.example", "dn3.example", "dn4.example")


class StoredRuns:
    """Runs of one name below a folder.

    Attributes:
        columns: How many columns their data has.
    """

    def __init__(self, root: Path | str, columns: int = 12) -> None:
        self.root = Path(root)
        self.columns = columns
        self.storage = LocalStorage()

    def directory(self, day: int) -> RunDirectory:
        """Returns where the run of a day of November lies."""
        return RunDirectory(str(self.root), NAME, f"2026-11-{day:02d}")

    def config(self, **output: Any) -> JobConfig:
        """Returns the configuration of all of them."""
        checks = {
            "refuse": {"columns": {"age": {"min": 0, "max": 120}}, "drift": {"columns": True}},
            "warn": {"drift": {"row_ratio": [0.9, 1.1], "linf": 0.05, "js": 0.05}},
        }
        return JobConfig.model_validate(
            {
                "name": NAME,
                "model": "churn:build",
                "params": {"hidden": [256, 64], "api_key": "s3cret"},
                "data": {
                    "path": "lake/customers",
                    "inputs": {"age": "age", "country": "country", "plan": "plan"},
                    "targets": {"churned": "churned"},
                    "checks": checks,
                    "validation": {"fraction": 0.1},
                },
                "cluster": {"workers": _WORKERS},
                "output": {"path": str(self.root), "report": True, **output},
                "publish": {},
            }
        )

    def published(self, day: int, version: int, **changed: Any) -> RunResult:
        """Leaves a run whose model was published, after an attempt that lost a node; returns its result."""
        auc = 0.812 + 0.004 * math.sin(day) + 0.001 * day
        fields: dict[str, Any] = {
            "verdict": Verdict.DONE,
            "comparison": comparison(promote=True, auc=auc),
            "carried": carried(),
            "extra": {"published": version, "publishing": f"published as version {version}"},
            "metrics": {"train": {"loss": 0.30, "auc": auc + 0.01}, "validation": {"loss": 0.34, "auc": auc}},
            "model": f"{self.directory(day).path}/model",
            "warnings": ("worker 2: its host's disk is nearly full: /data",),
        }
        return self._store(day, fields | changed, drift=0.01 * (day % 9))

    def first(self, day: int) -> RunResult:
        """Leaves the run whose model is the first to be published: there is no champion."""
        return self.published(day, 1, comparison=bounded(), carried=None, warnings=())

    def kept(self, day: int) -> RunResult:
        """Leaves a run whose gate kept the champion."""
        auc = 0.79
        fields = {
            "verdict": Verdict.GATED,
            "comparison": comparison(promote=False, auc=auc),
            "metrics": {"train": {"loss": 0.4, "auc": auc}, "validation": {"loss": 0.44, "auc": auc}},
        }
        return self._store(day, fields, drift=0.01 * (day % 9))

    def failed(self, day: int, message: str = HOSTILE) -> RunResult:
        """Leaves a run whose model's code failed in its first update."""
        error = ErrorRecord(
            type="InvalidArgumentError",
            message=message,
            verdict=Verdict.MODEL_FAILED,
            time_s=(_BEGAN + dt.timedelta(days=day - 1, minutes=3)).timestamp(),
            node="worker 1",
            host=_HOSTS[1],
            exit_code=1,
            traceback='Traceback (most recent call last):\n  File "churn.py", line 41, in call\n    '
            f"{'x' * 180}\nInvalidArgumentError: {message}\n",
            log="hdfs://nn/runs/churn/2026-11-02/logs/001-worker-1.log",
            log_tail="2026-11-02 02:03:11 step 1\n",
        )
        return self._store(day, {"verdict": Verdict.MODEL_FAILED, "error": error}, drift=0.02, trains=False)

    def refused(self, day: int) -> RunResult:
        """Leaves a run whose data was refused: it has statistics, and neither plan nor attempts."""
        error = ErrorRecord(
            type="DataError",
            message="the data is refused: column age: the greatest value is 612, above 120 "
            "(data.checks.refuse.columns.age.max)",
            verdict=Verdict.DATA_REFUSED,
            time_s=_BEGAN.timestamp(),
        )
        result = self._result(day, {"verdict": Verdict.DATA_REFUSED, "error": error, "duration_s": 12.0})
        self._put(self.directory(day).result, result.model_dump_json())
        self._statistics(day, drift=0.4, oldest=612.0)
        return result

    def under_way(self, day: int, seconds: float = 1000.0) -> None:
        """Leaves what a run has stored that is in its second epoch."""
        begin_s = (_BEGAN + dt.timedelta(days=day - 1)).timestamp()
        course = CourseSeen(attempt=1, samples=samples(seconds))
        events: list[tuple[float, Event]] = [
            (0.0, RunBegun(run_id=self.directory(day).run_id, config="c", plan="p")),
            (20.0, AttemptBegun(attempt=1, workers=_WORKERS, hosts=", ".join(_HOSTS), from_step=0)),
            *_metrics(1, epochs=1),
            (20.0 + seconds, course),
            (420.0, LossOutlived(attempt=1, number=1, loss=_OUTLIVED.model_copy(update={"whole_step": None}))),
            (21.0 + seconds, LineSaid(text="epoch 2/3  step 12,000  rows 12,288,000  48,211 rows/s  loss 0.3012")),
        ]
        self._events(day, begin_s, events)
        self._config(day)
        self._statistics(day, drift=0.02)

    def serve(self, day: int, version: int, drift: float) -> None:
        """Puts a version where readers find it, as the current one, with the statistics of its run's data."""
        folder = f"{self.root}/{NAME}/serving"
        manifest = ModelManifest(
            files=(),
            name=NAME,
            run_id=self.directory(day).run_id,
            date=f"2026-11-{day:02d}",
            published=_BEGAN.isoformat(),
            plan_hash="p",
            steps=1,
        )
        self._put(f"{folder}/{version}/{MANIFEST}", manifest.model_dump_json())
        self._put(f"{folder}/{version}/{STATISTICS}", statistics(self.columns, drift).model_dump_json())
        self._put(f"{folder}/{CURRENT}", str(version))

    def days(self, last: int) -> None:
        """Leaves a run of each day of November until one."""
        for day in range(1, last + 1):
            if day % 7 == 5:
                self.kept(day)
            elif day % 11 == 8:
                self.failed(day, "the loss is NaN at update 17: lower the learning rate")
            else:
                self.published(day, day)

    def _store(self, day: int, fields: dict[str, Any], drift: float, *, trains: bool = True) -> RunResult:
        attempts = _attempts(fields.get("error")) if trains else _attempts(fields.get("error"))[-1:]
        steps = attempts[-1].to_step
        result = self._result(day, {"attempts": attempts, "steps": steps, "rows_trained": steps * 1024, **fields})
        begin_s = (_BEGAN + dt.timedelta(days=day - 1)).timestamp()
        self._events(day, begin_s, list(_events(result, trains=trains)))
        self._put(self.directory(day).result, result.model_dump_json())
        self._config(day)
        self._statistics(day, drift)
        return result

    def _result(self, day: int, fields: dict[str, Any]) -> RunResult:
        known = {
            "run_id": self.directory(day).run_id,
            "name": NAME,
            "date": f"2026-11-{day:02d}",
            "path": self.directory(day).path,
            "started": (_BEGAN + dt.timedelta(days=day - 1)).isoformat(),
            "duration_s": 1460.0,
            "seconds": {
                "preflight": 2.1,
                "wait": 61.0,
                "plan": 4.2,
                "check": 31.0,
                "reserve": 12.0,
                "train": 1291.0,
                "publish": 58.0,
            },
            "versions": {"keras": "3.15.1", "tensorflow": "2.21.0"},
            "application": "application_1795000000000_0042",
        }
        return RunResult.model_validate(known | fields)

    def _events(self, day: int, begin_s: float, events: list[tuple[float, Event]]) -> None:
        now = [begin_s]
        log = EventLog(self._write, self.directory(day).events, lambda: now[0])
        for at_s, event in sorted(events, key=lambda timed: timed[0]):
            now[0] = begin_s + at_s
            log.emit(event)
        log.flush()

    def _config(self, day: int) -> None:

        self._put(self.directory(day).config, show_config(self.config()))

    def _statistics(self, day: int, drift: float, oldest: float = 97.0) -> None:
        self._put(self.directory(day).statistics, statistics(self.columns, drift, oldest).model_dump_json())

    def _put(self, path: str, content: str) -> None:
        self._write(path, content.encode())

    def _write(self, path: str, content: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)


def comparison(*, promote: bool, auc: float) -> Comparison:
    """Returns what a gate has found on all rows and on slices, of two metrics."""
    slices = ("", "country=de", "country=fr", "country=nl", "plan=prepaid", f"plan={HOSTILE}")
    better = 0.004 if promote else -0.012
    differences = []
    for n, each in enumerate(slices):
        by = better + (n % 3 - 1) * 0.002
        finding: Judgement = "good" if promote else ("worse" if n % 2 == 0 else "undecided")
        differences.append(_difference("auc", each, n, auc, auc - by, by, 0.002, finding))
        differences.append(_difference("loss", each, n, 0.34, 0.34 + by, by, None, "good" if promote else "undecided"))
    reason = (
        "better than version 13 in auc by 0.0040 (95 %: 0.0011 to 0.0069) on 102,400 rows"
        if promote
        else "worse than version 13 in auc by 0.0120, which is more than gate.metrics.auc.tolerance: 0.002"
    )
    return Comparison(
        promote=promote,
        reason=reason,
        champion="version 13 of run 2026-10-31",
        champion_version=13,
        replicates=1000,
        seed=7,
        differences=tuple(differences),
        anchor=Anchored(
            label="version 9, the best of the last 7",
            version=9,
            differences=(_difference("auc", "", 0, auc, auc - 0.001, 0.001, 0.002, "good"),),
        ),
    )


def bounded() -> Comparison:
    """Returns what a gate has found without a champion."""
    measured = (("auc", "", 0.8123), ("auc", "country=de", 0.81), ("auc", "country=fr", 0.8), ("loss", "", 0.34))
    return Comparison(
        promote=True,
        reason="nothing is published to compare with, and the model is within its bounds",
        differences=tuple(
            Difference(metric=metric, slice=each, rows=102_400, challenger=value, least=0.7, finding="good")
            for metric, each, value in measured
        ),
    )


def _difference(
    metric: str,
    slice_: str,
    n: int,
    challenger: float,
    champion: float,
    by: float,
    tolerance: float | None,
    finding: Judgement,
) -> Difference:
    width = 0.003 + 0.001 * n
    return Difference(
        metric=metric,
        slice=slice_,
        rows=102_400 // (n + 1),
        challenger=challenger,
        champion=champion,
        low=by - width,
        high=by + width,
        tolerance=tolerance,
        least=0.7 if metric == "auc" else None,
        finding=finding,
        rows_needed=480_000 if finding == "undecided" else None,
    )


def carried() -> Carried:
    """Returns what a warm start has taken over."""
    return Carried(
        source="version 13",
        run_id="2026-10-31",
        optimizer=True,
        full_date="2026-10-25",
        variables=(
            CarriedVariable(name="dense/kernel", shape=(64, 256), how="kept"),
            CarriedVariable(name="country_embedding/table", shape=(214, 16), how="entries", kept=211, new=3, left=1),
            CarriedVariable(name="head/kernel", shape=(256, 2), how="new", why="of shape (256, 1) there"),
        ),
        left=("old_head/bias",),
    )


def samples(seconds: float, nodes: int = _WORKERS, first: int = 0, last: int = 12_000) -> Samples:
    """Returns a course of 200 samples: a loss that falls, and nodes of which one stalls for a while."""
    times = np.linspace(1.0, seconds, 200)
    steps = np.maximum(1, np.linspace(first, last, 200).astype(int))
    losses = 0.28 + 0.5 * np.exp(-steps / 2_500) + 0.012 * np.sin(times * 7.7) * np.cos(times * 2.3)
    rows = {}
    for node in range(nodes):
        speed = 12_000 * (1 - 0.06 * node) + 900 * np.sin(times / 40 + node)
        if node == 2:
            speed = np.where((times > seconds * 0.4) & (times < seconds * 0.55), 3_000, speed)
        rows[f"worker {node}"] = tuple(int(count) for count in np.cumsum(speed * (seconds / 200)))
    return Samples(seconds=tuple(times.tolist()), steps=tuple(steps.tolist()), losses=tuple(losses.tolist()), rows=rows)


def statistics(columns: int, drift: float, oldest: float = 97.0) -> TableStatistics:
    """Returns statistics of a million rows, moved by `drift`: numbers, texts, a list and a label."""
    rows = 1_000_000 + int(400_000 * drift)
    found = {
        "age": ColumnStatistics(type="int", nulls=0, numbers=_normal(41 + 10 * drift, 13, 18, oldest), distinct=80),
        "country": _texts(rows, {"de": 0.41 - drift, "fr": 0.24 + drift, "nl": 0.2, "it": 0.1, HOSTILE: 0.05}),
        "plan": _texts(rows, {"prepaid": 0.55, "contract": 0.45}),
        "words": ColumnStatistics(type="array<string>", nulls=0, lengths=_normal(12, 4, 0, 64)),
        "churned": ColumnStatistics(
            type="int",
            nulls=0,
            numbers=Spread(
                count=rows, min=0, max=1, mean=0.2, deviation=0.4, quantiles=tuple(float(r > 0.8) for r in RANKS)
            ),
            distinct=2,
            commonest=(ValueCount(value=0, count=int(rows * 0.8)), ValueCount(value=1, count=rows - int(rows * 0.8))),
        ),
    }
    for n in range(columns - len(found)):
        name = f"measurement_{n:03d}_of_the_last_thirty_days" if n % 3 == 0 else f"f{n}"
        spread = _normal(n + drift * (n % 5), 1 + n / 10, n - 6, n + 6)
        found[name] = ColumnStatistics(
            type="double", nulls=int(rows * 0.01 * (n % 4)), numbers=spread, distinct=rows // 2
        )
    return TableStatistics(rows=rows, sample=1.0, rows_read=rows, columns=found, labels=("churned",))


def _normal(mean: float, deviation: float, low: float, high: float) -> Spread:
    ranks = np.array(RANKS)
    # Near enough to a normal distribution's quantiles (Tukey's lambda of 0.14).
    quantiles = mean + deviation * (ranks**0.1349 - (1 - ranks) ** 0.1349) / 0.1975
    return Spread(
        count=1_000_000,
        min=low,
        max=high,
        mean=mean,
        deviation=deviation,
        quantiles=tuple(np.clip(quantiles, low, high).tolist()),
    )


def _texts(rows: int, shares: dict[str, float]) -> ColumnStatistics:
    nulls = rows // 50
    counts = [int((rows - nulls) * share) for share in shares.values()]
    counts[0] += rows - nulls - sum(counts)
    commonest = tuple(ValueCount(value=value, count=count) for value, count in zip(shares, counts, strict=True))
    return ColumnStatistics(type="string", nulls=nulls, distinct=len(shares), commonest=commonest)


_OUTLIVED = Outlived(
    nodes=("worker 1",),
    causes=("worker 1 on dn2.example lost its agent: executor lost",),
    step=4_812,
    workers=3,
    after_s=0.31,
    whole_step=4_835,
)


def _attempts(error: ErrorRecord | None) -> tuple[AttemptResult, ...]:
    lost = ErrorRecord(
        type="NodeLostError",
        message="worker 2 lost its executor: Container killed by YARN for exceeding physical memory limits",
        verdict=Verdict.INFRASTRUCTURE,
        time_s=_BEGAN.timestamp() + 300,
        node="worker 2",
        host=_HOSTS[2],
    )
    first = AttemptResult(
        attempt=1,
        workers=_WORKERS,
        hosts=_HOSTS,
        from_step=0,
        to_step=2400,
        duration_s=240.0,
        root_cause=lost,
        nodes=_nodes(),
    )
    second = AttemptResult(
        attempt=2,
        workers=_WORKERS,
        hosts=_HOSTS,
        from_step=2000,
        to_step=14_400,
        duration_s=1_020.0,
        root_cause=error,
        nodes=_nodes(),
        outlived=(_OUTLIVED,),
    )
    return (first, second)


def _nodes() -> tuple[NodeResult, ...]:
    return tuple(
        NodeResult(
            node=f"worker {n}",
            host=_HOSTS[n],
            nbytes=2_400_000_000 - n * 90_000_000,
            local_nbytes=2_400_000_000 - n * 420_000_000,
            log=f"http://{_HOSTS[n]}:8042/node/containerlogs/container_1795000000000_0042_01_00000{n}/etl",
            input=NodeInput(rows={"direct": 12_000_000 - n * 400_000}, wait_s=12.0 + 40 * n, seconds=1_000.0),
            pace=NodePace(
                updates=12_000,
                computing=Percentiles(p50_s=0.041 + 0.022 * (n == 2), p95_s=0.052 + 0.04 * (n == 2), total_s=500.0),
                rows_wait=Percentiles(p50_s=0.001, p95_s=0.004, total_s=12.0),
                peers_wait=Percentiles(p50_s=0.032 - 0.022 * (n == 2), p95_s=0.06, total_s=400.0),
            ),
        )
        for n in range(_WORKERS)
    )


def _metrics(attempt: int, epochs: int) -> Iterator[tuple[float, Event]]:
    node = NodeId(role=Role.WORKER, index=0)
    for epoch in range(epochs):
        at_s, step = 320.0 + 380 * epoch, 4_800 * (epoch + 1)
        for stream, gap in ((Stream.TRAIN, 0.0), (Stream.VALIDATION, 0.02)):
            values = {
                "loss": 0.285 + 0.215 * 0.13**epoch + gap,
                "auc": 0.74 + 0.03 * epoch - gap,
                "accuracy": 0.8 + 0.02 * epoch - gap / 2,
            }
            yield (
                at_s,
                MetricsSeen(
                    attempt=attempt, node=node, stream=stream, epoch=epoch, step=step, rows=1_000_000, values=values
                ),
            )


def _events(result: RunResult, *, trains: bool) -> Iterator[tuple[float, Event]]:
    yield 0.0, RunBegun(run_id=result.run_id, config="c", plan="p")
    at_s = 110.0
    for attempt in result.attempts:
        hosts = ", ".join(attempt.hosts)
        yield (
            at_s,
            AttemptBegun(attempt=attempt.attempt, workers=attempt.workers, hosts=hosts, from_step=attempt.from_step),
        )
        seconds = attempt.duration_s if trains else 4.0
        seen = samples(seconds, first=attempt.from_step, last=attempt.to_step) if trains else Samples()
        at_s += seconds
        yield at_s, AttemptEnded(**dict(attempt), samples=seen)
        at_s += 15.0
    if trains:
        yield from _metrics(2, epochs=3)
    yield at_s, RunEnded(verdict=int(result.verdict))
