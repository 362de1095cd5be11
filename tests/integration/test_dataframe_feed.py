"""Training on DataFrames: every row exactly once in every epoch, whatever its partitions and Spark do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.rows import job
from integration.watch import Watch

from sparktf.driver.result import RunResult


def fed_job(application: Application, watch: Watch, *, hold_at: int = 0, **sections: Any) -> dict[str, Any]:
    """Returns a configuration that trains on the DataFrame it is given with."""
    params = watch.params(hold_at=hold_at)
    return job(Path("unused"), application.sandbox.runs, "cases.watched:build", params=params, **sections)


def assert_each_row(result: RunResult, watch: Watch, rows: int, *, epochs: int = 1) -> None:
    """Asserts that each row was trained on once in each epoch, and that the books say so."""
    assert watch.ids(watch.pids()) == dict.fromkeys(range(1, rows + 1), epochs)
    assert [(e.planned, e.fed, e.trained, e.complete) for e in result.rows] == [(rows, rows, rows, True)] * epochs


class TestPartitions:
    @pytest.mark.parametrize(
        "sizes",
        [
            pytest.param([5, 0, 3000, 1, 0, 700], id="uneven-and-empty"),
            pytest.param([4000], id="one-huge"),
            pytest.param([37] * 20, id="more-than-slots"),
        ],
    )
    def test_each_row_is_trained_on_once(self, local: Application, watch: Watch, sizes: list[int]) -> None:
        config = fed_job(local, watch, name=f"sizes-{len(sizes)}", data={"shuffle_rows": 500})
        result = local.train(config, "r", "cases.frames:partitions", sizes=sizes).done
        assert_each_row(result, watch, sum(sizes))

    def test_rows_of_the_only_partition_move_to_the_worker_that_has_none(
        self, local: Application, watch: Watch
    ) -> None:
        config = fed_job(local, watch, name="moving", data={"shuffle_rows": 500}, train={"batch_size": 200})
        result = local.train(config, "r", "cases.frames:partitions", sizes=[60_000]).done
        assert_each_row(result, watch, 60_000)
        by_worker = [sum(watch.ids([pid]).values()) for pid in watch.pids()]
        assert min(by_worker) > 10_000

    def test_on_executors_of_their_own_too(self, cluster: Application, watch: Watch) -> None:
        config = fed_job(cluster, watch, name="executors", cluster={"workers": 3}, data={"shuffle_rows": 500})
        sizes = [1, 0, 2500, 40, 900, 3, 700]
        assert_each_row(cluster.train(config, "r", "cases.frames:partitions", sizes=sizes).done, watch, sum(sizes))


class TestSources:
    @pytest.mark.parametrize("builder", ["joined", "scattered"])
    @pytest.mark.parametrize("cache", ["on", "off"])
    def test_three_epochs_have_each_row_once_each(
        self, local: Application, watch: Watch, builder: str, cache: str
    ) -> None:
        config = fed_job(
            local,
            watch,
            name=f"{builder}-{cache}",
            data={"shuffle_rows": 300, "cache": cache},
            train={"epochs": 3, "batch_size": 64},
        )
        result = local.train(config, "r", f"cases.frames:{builder}", rows=1500).done
        assert_each_row(result, watch, 1500, epochs=3)
        for pid in watch.pids():  # no epoch repeats the order of another
            first = watch.ids([pid], updates=8)
            assert set(first.values()) == {1}


class TestFaults:
    @pytest.mark.parametrize("how", ["raise", "exit"])
    def test_a_feeder_that_fails_midway_is_tried_again_and_no_row_is_lost(
        self, cluster: Application, watch: Watch, tmp_path: Path, how: str
    ) -> None:
        config = fed_job(cluster, watch, name=f"fails-{how}", train={"batch_size": 1024})
        flag = tmp_path / "failed"
        sizes = [500, 40_000, 300]
        outcome = cluster.train(
            config, "r", "cases.frames:failing_once", sizes=sizes, at=30_000, flag=str(flag), how=how
        )
        assert flag.exists()
        assert len(outcome.done.attempts) == 1
        assert_each_row(outcome.done, watch, sum(sizes))


def _counts(ids: Counter[int]) -> Counter[int]:
    return Counter(ids.values())
