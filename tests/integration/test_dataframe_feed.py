"""Training on DataFrames: every row exactly once in every epoch, whatever its partitions and Spark do."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from integration.application import Application
from integration.counts import counts_of
from integration.processes import executor_of, wait_for
from integration.rows import job
from integration.watch import Watch
from meant import meant
from split import only

from sparktf import Verdict
from sparktf.results.events import MetricsSeen
from sparktf.results.result import RunResult
from sparktf.sequence import Stream


def fed_job(application: Application, watch: Watch, name: str, *, hold_at: int = 0, **sections: Any) -> dict[str, Any]:
    """Returns a configuration that trains on the DataFrame it is given with; runs of one name share a folder."""
    params, data = watch.params(hold_at=hold_at), {"path": None, **sections.pop("data", {})}
    return job(
        Path(),
        application.sandbox.runs,
        "cases.watched:build",
        name=f"fed-{name}",
        params=params,
        data=data,
        **sections,
    )


def assert_each_row(result: RunResult, watch: Watch, rows: int, *, epochs: int = 1) -> None:
    """Asserts that each row was trained on once in each epoch, and that the books say so."""
    assert watch.ids(watch.pids()) == dict.fromkeys(range(1, rows + 1), epochs)
    assert [(e.planned, e.fed, e.trained, e.complete) for e in result.rows] == [(rows, rows, rows, True)] * epochs


class TestPartitions:
    @pytest.mark.parametrize(
        "sizes",
        [
            pytest.param([5, 0, 3000, 1, 0, 700], id="uneven-and-empty"),
            pytest.param([4000], id="one-huge", marks=pytest.mark.more),
            pytest.param([37] * 20, id="more-than-slots", marks=pytest.mark.more),
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


class TestSources:
    @pytest.mark.parametrize(
        ("builder", "cache"),
        only(
            *[("joined", "on"), ("jumbled", "off")],  # the rows of `scattered` are counted where a fraction is held out
            of=[("joined", "on"), ("joined", "off"), ("scattered", "on"), ("scattered", "off"), ("jumbled", "off")],
        ),
    )
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

    def test_adaptive_execution_may_change_the_partitions_between_epochs(
        self, local: Application, watch: Watch, tmp_path: Path
    ) -> None:
        config = fed_job(
            local, watch, name="replanned", hold_at=3, data={"cache": "off"}, train={"epochs": 2, "batch_size": 64}
        )
        flag = tmp_path / "flag"
        watch.hold()
        local.begin(config, "r", "cases.frames:replanned", rows=1500, flag=str(flag))
        watch.held(1)  # all rows are in one partition at first
        flag.touch()
        before, after = wait_for("the plan has changed", lambda: flag.read_text().split(), within_s=60)
        assert int(before) < int(after)
        watch.release()
        assert_each_row(local.outcome().done, watch, 1500, epochs=2)


class TestFaults:
    @pytest.mark.more(
        "integration/test_spark_async.py::test_rows_are_trained_once_an_epoch_also_where_an_executor_is_killed_that_feeds_them",
        "integration/test_rdd_feed.py::test_a_feeder_on_executors_that_fails_midway_is_tried_again_and_rows_are_read_by_name",
    )
    def test_an_executor_that_dies_while_it_feeds_other_nodes_costs_no_row_and_no_attempt(
        self, cluster: Application, watch: Watch, tmp_path: Path
    ) -> None:
        config = fed_job(cluster, watch, name="lost-feeders", train={"batch_size": 2048})
        (tmp_path / "wait").touch()
        sizes = [20_000] * 6
        options: dict[str, Any] = {"sizes": sizes, "every": 20_000, "at": 15_000, "folder": str(tmp_path)}
        cluster.begin(config, "r", "cases.frames:waiting", **options)
        (lost, *_) = wait_for(
            "feeders are at work without a node", lambda: lone_feeders(cluster, tmp_path), within_s=90
        )
        lost.kill()
        lost.wait()
        (tmp_path / "wait").unlink()
        result = cluster.outcome().done
        assert len(result.attempts) == 1
        assert_each_row(result, watch, sum(sizes))

    def test_a_node_that_dies_while_it_is_fed_costs_no_attempt_and_what_it_had_is_fed_to_the_others(
        self, cluster: Application, watch: Watch
    ) -> None:
        rows, epochs = 2500, 20  # two minutes for a successor to start meanwhile, two updates a second
        config = fed_job(
            cluster,
            watch,
            name="lost-node",
            hold_at=6,
            data={"shuffle_rows": 100, "validation": {"where": "id % 5 = 0"}},
            train={"batch_size": 128, "epochs": epochs, "max_attempts": 1},
        )
        config["model"] = "cases.watched:build_counting"
        config["params"]["rows"] = rows + 1
        watch.hold()
        cluster.begin(config, "r", "cases.frames:partitions", sizes=[900, 0, 1100, 500])
        leader, lost = watch.held(2)
        executor_of(lost.pid).kill()
        watch.hold_by_one()
        watch.joined(leader, lost)
        watch.release()
        result = cluster.outcome().done
        (attempt,) = result.attempts
        assert [loss.node for loss in attempt.losses] == ["worker 1"]
        trained = sum(i % 5 > 0 for i in range(1, rows + 1))
        assert [(e.planned, e.fed, e.trained, e.complete) for e in result.rows] == [(*[trained] * 3, True)] * epochs
        counts = counts_of(result.model, rows + 1)
        assert counts.tolist() == [epochs * (i % 5 > 0) for i in range(rows + 1)]
        assert validation_rows(cluster, config) == [rows - trained] * epochs

    def test_a_node_that_dies_in_an_evaluation_costs_no_attempt_and_each_held_out_row_is_evaluated_once(
        self, local: Application, watch: Watch
    ) -> None:
        rows, epochs = 2500, 2
        config = fed_job(
            local,
            watch,
            name="lost-evaluating",
            data={"shuffle_rows": 100, "validation": {"where": "id % 5 = 0"}},
            train={"batch_size": 64, "epochs": epochs, "max_attempts": 1},
        )
        config["model"] = "cases.watched:build_counting"
        config["params"] |= {"rows": rows + 1, "hold_evaluation_at": 2}  # it has evaluated rows, which count no more
        watch.hold()
        local.begin(config, "r", "cases.frames:partitions", sizes=[900, 0, 1100, 500])
        (lost, *_) = watch.held(1)
        psutil.Process(lost.pid).kill()
        watch.release()
        result = local.outcome().done
        (attempt,) = result.attempts
        assert [loss.node for loss in attempt.losses] == [f"worker {lost.index}"]
        assert validation_rows(local, config) == [rows // 5] * epochs
        assert counts_of(result.model, rows + 1).tolist() == [epochs * (i % 5 > 0) for i in range(rows + 1)]


class TestBackPressure:
    def test_feeders_wait_for_a_slow_trainer_and_it_does_not_grow(
        self, local: Application, watch: Watch, tmp_path: Path
    ) -> None:
        partitions, rows = 200, 20_000
        config = fed_job(
            local,
            watch,
            name="slow",
            hold_at=3,
            data={"shuffle_rows": 5000, "staging_mib": 1},
            train={"batch_size": 256, "max_steps": 12},
        )
        watch.hold()
        options: dict[str, Any] = {"partitions": partitions, "rows": rows, "folder": str(tmp_path)}
        local.begin(config, "r", "cases.frames:counted", **options)
        trainers = [psutil.Process(held.pid) for held in watch.held(2)]
        wait_for("feeders rest", lambda: rest(tmp_path), within_s=60)
        before, begun = [trainer.memory_info().rss for trainer in trainers], len(list(tmp_path.iterdir()))
        wait_for("feeders rest", lambda: rest(tmp_path), within_s=60)
        assert len(list(tmp_path.iterdir())) == begun < partitions // 8
        grown = [trainer.memory_info().rss - was for trainer, was in zip(trainers, before, strict=True)]
        assert max(grown) < 10 << 20
        watch.release()
        assert local.outcome().done.steps == 12
        assert len(list(tmp_path.iterdir())) < partitions // 2


class TestStreams:
    def test_predicates_choose_what_is_trained_on_and_hold_rows_out(self, local: Application, watch: Watch) -> None:
        data = {"where": "id > 100", "validation": {"where": "id % 5 = 0"}}
        config = fed_job(local, watch, name="where", data=data)
        result = local.train(config, "r", "cases.frames:partitions", sizes=[500, 0, 400]).done
        assert watch.ids(watch.pids()) == dict.fromkeys((i for i in range(101, 901) if i % 5), 1)
        assert validation_rows(local, config) == [160]
        assert [(e.planned, e.trained) for e in result.rows] == [(640, 640)]

    def test_a_fraction_holds_the_same_rows_out_of_every_epoch(self, local: Application, watch: Watch) -> None:
        config = fed_job(
            local, watch, name="fraction", data={"validation": {"fraction": 0.25}, "cache": "off"}, train={"epochs": 2}
        )
        local.train(config, "r", "cases.frames:scattered", rows=1000)
        trained = watch.ids(watch.pids())
        assert set(trained.values()) == {2}
        assert 650 < len(trained) < 850
        assert validation_rows(local, config) == [1000 - len(trained)] * 2


class TestResume:
    def interrupt(
        self, local: Application, watch: Watch, config: dict[str, Any], frame: str, **options: Any
    ) -> list[int]:
        """Interrupts a run inside its first epoch, after its commit at step 10; returns the trainers."""
        watch.hold()
        local.begin(config, "r", frame, **options)
        first = [held.pid for held in watch.held(2)]
        run = local.run(config, "r")
        wait_for("a commit", run.committed, within_s=60)
        local.interrupt()
        assert local.outcome().error == "KeyboardInterrupt"
        assert run.committed() == [10]
        watch.release()
        return first

    def resumable(self, local: Application, watch: Watch, **sections: Any) -> dict[str, Any]:
        return fed_job(
            local,
            watch,
            hold_at=13,
            train={"epochs": 2, "batch_size": 30},
            checkpoint={"every_steps": 10},
            **sections,
        )

    def test_an_interrupted_run_goes_on_inside_the_epoch_with_more_workers(
        self, local: Application, watch: Watch
    ) -> None:
        config = self.resumable(local, watch, name="resumed", data={"shuffle_rows": 70, "cache": "off"})
        config["model"] = "cases.hand_written:train"
        sizes = [100, 0, 250, 50, 200]
        first = self.interrupt(local, watch, config, "cases.frames:partitions", sizes=sizes)
        config["cluster"] = {"workers": 3}
        resumed = local.train(config, "r", "cases.frames:partitions", sizes=sizes).done
        assert (resumed.attempts[0].workers, resumed.attempts[0].from_step) == (3, 10)
        assert_once(resumed, watch, first, updates=10, rows=600, epochs=2)

    @pytest.mark.more("unit/test_feeding.py::test_a_source_with_other_rows_than_the_checkpoint_knew_fails_the_attempt")
    def test_a_source_that_has_changed_is_refused_by_the_partitions_name(
        self, local: Application, watch: Watch, tmp_path: Path
    ) -> None:
        config = self.resumable(local, watch, name="changed")
        config["model"] = "cases.hand_written:train"
        options: dict[str, Any] = {"rows": 600, "flag": str(tmp_path / "grown")}
        self.interrupt(local, watch, config, "cases.frames:growing", **options)
        (tmp_path / "grown").touch()
        outcome = local.train(config, "r", "cases.frames:growing", **options)
        assert (outcome.error, outcome.verdict) == ("DataError", Verdict.DATA_REFUSED)
        assert "partition 1 of the data has 201 rows, but had 200" in outcome.message


class TestRefusals:
    @pytest.mark.parametrize(
        ("frame", "options", "sections", "error", "says"),
        [
            pytest.param(
                "partitions",
                {"sizes": [5]},
                {"data": {"inputs": {"id": "id", "x": ["a", "nope"]}}},
                "ColumnError",
                "nope",
                id="unknown-column",
            ),
            pytest.param(
                "with_null",
                {"sizes": [30, 50], "at": 42},
                {},
                "BadValueError",
                "partition 1 of the data",
                id="null",
            ),
            pytest.param(
                "dividing",
                {"sizes": [500], "at": 400},
                {},
                *meant(("DataError", "DIVIDE_BY_ZERO"), before_4=("BadValueError", "null; set data.fill_null")),
                id="sql-error",
            ),
            pytest.param("failing", {"sizes": [500], "at": 400}, {}, "DataError", "ZeroDivisionError", id="udf-error"),
            pytest.param(
                *("partitions", {"sizes": [5]}, {"cluster": {"workers": 6}}, "PreflightError", "local[7]"),
                id="slots",
                marks=pytest.mark.more,
            ),
            pytest.param(
                "partitions",
                {"sizes": [5]},
                {"data": {"validation": {"path": "/v"}}},
                "ConfigError",
                "data.validation.path",
                id="validation-path",
            ),
            pytest.param(
                "partitions", {"sizes": [5]}, {"data": {"where": "nope > 1"}}, "ConfigError", "data.where", id="where"
            ),
            pytest.param("partitions", {"sizes": [0, 0]}, {}, "EmptySourceError", "no row", id="no-rows"),
        ],
    )
    def test_bad_input_is_told_in_one_line(
        self,
        local: Application,
        watch: Watch,
        request: pytest.FixtureRequest,
        frame: str,
        options: dict[str, Any],
        sections: dict[str, Any],
        error: str,
        says: str,
    ) -> None:
        config = fed_job(local, watch, name=f"refused-{request.node.callspec.id}", **sections)
        outcome = local.train(config, "r", f"cases.frames:{frame}", **options)
        assert (outcome.error, says in outcome.message) == (error, True), outcome.message
        assert "\n" not in outcome.message.strip()
        assert not local.family.trainers()


def assert_once(result: RunResult, watch: Watch, first: list[int], *, updates: int, rows: int, epochs: int = 1) -> None:
    """Asserts that so many updates of the first trainers, and all of the later ones, had each row once per epoch."""
    later = [pid for pid in watch.pids() if pid not in first]
    trained = watch.ids(first, updates=updates) + watch.ids(later)
    assert trained == dict.fromkeys(range(1, rows + 1), epochs)
    assert [(e.planned, e.fed, e.trained, e.complete) for e in result.rows] == [(rows, rows, rows, True)] * epochs


def lone_feeders(application: Application, folder: Path) -> list[psutil.Process]:
    """Returns the executors that compute rows for nodes on other executors."""
    with_node = {executor_of(trainer.pid).pid for trainer in application.family.trainers()}
    feeding = [executor_of(int(path.name.partition("-")[2])) for path in folder.glob("pid-*")]
    return [executor for executor in feeding if executor.pid not in with_node]


def rest(folder: Path) -> bool:
    """Returns whether no partition was computed for two seconds."""
    names = sorted(os.listdir(folder))
    deadline_s = time.monotonic() + 2
    while time.monotonic() < deadline_s:
        if sorted(os.listdir(folder)) != names:
            return False
        time.sleep(0.1)
    return bool(names)


def validation_rows(application: Application, config: dict[str, Any]) -> list[int]:
    """Returns the rows of each evaluation."""
    events = application.run(config, "r").events(MetricsSeen)
    return [event.rows for event in events if event.stream is Stream.VALIDATION]
