"""Asynchronous training whose trainers are lost: rows by content, causes by name, and who takes which place."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from integration.gates import Pipe
from integration.processes import wait_for
from split import only
from trainer import lake, reference
from trainer.local_gang import LocalGang
from trainer.losing import Gate, GatedSite, LosingRun
from trainer.results import accounts, steps_saved
from trainer.told import Update, has_trained, rows_by_epoch, updates_of_attempt

from sparktf.api.trained import TrainedRun
from sparktf.config.job import JobConfig
from sparktf.errors import BadValueError, Verdict
from sparktf.knobs import KNOBS
from sparktf.results.result import RunResult
from sparktf.results.usage import Usage
from sparktf.storage.file_systems import open_storage

ROWS, BATCH, CALL_STEPS, FILES = 1200, 4, 4, 48
SILENCE_S = 5.0
REPLACE_S = 10.0


class Lossy(NamedTuple):
    """A run of two epochs that lost workers in the first, and a parameter server and a coordinator in the second.

    Attributes:
        second_us: Before this moment all updates of the first epoch were made, and none of the second.
    """

    config: JobConfig
    result: RunResult
    second_us: int

    def first_epoch(self) -> list[Update]:
        """Returns the updates of the first epoch."""
        return [
            update
            for update in updates_of_attempt(self.result, self.result.attempts[0])
            if update.time_us < self.second_us
        ]


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate(ROWS // 12)


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory, gate: Gate) -> Iterator[LocalGang]:
    gang = LocalGang(job(tmp_path_factory.mktemp("none")), 4, GatedSite(4, gate))
    yield gang
    gang.close()


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory, gang: LocalGang, gate: Gate) -> Lossy:
    """Takes trainers away, one after the other, in one run: it starts once."""
    folder = tmp_path_factory.mktemp("lossy")
    lake.write(folder / "lake", [ROWS // FILES] * FILES)
    config = job(folder)
    run = LosingRun(gang, config)
    run.kill("001-worker-0")
    run.kill("001-worker-0.1", "001-worker-1")
    run.freeze("001-worker-1.1")
    run.kill("001-worker-0.2")  # before anybody knows of the frozen one
    run.wait_for_updates("001-worker-0.3")
    place = run.take_executor("001-worker-1.2")
    run.wait_for_words("it was not replaced")
    run.wait_for_stand_in("worker 1")
    run.kill("001-worker-0.3")
    run.wait_for_updates("001-worker-0.4")
    run.give_executor(place)
    run.wait_for_updates("001-worker-1.3")
    gate.open(0)
    run.wait_for_commit()
    wait_for("the second epoch", lambda: (1, 1) in gate.asked_us, within_s=60)
    run.end("001-ps-0")
    run.wait_for_updates("002-worker-0", "002-worker-1")
    run.end("002-chief-0")
    run.kill_starting("003-worker-1")  # there is no other attempt: a gang that starts waits for its successor
    run.wait_for_updates("003-worker-0", "003-worker-1.1")
    gate.open(1)
    return Lossy(config, run.result(), gate.asked_us[1, 1])


def job(folder: Path, *, data: Mapping[str, Any] = MappingProxyType({}), **params: Any) -> JobConfig:
    return lake.job(
        folder,
        "everything",
        data={**lake.RICH, "shuffle_rows": 1, **data},
        cluster={"strategy": "parameter_server", "workers": 2, "ps": 1},
        params={"flavour": "keras", "rows": ROWS, "told": True, "rich": True, **params},
        train={"batch_size": BATCH, "steps_per_call": CALL_STEPS, "epochs": 2, "max_attempts": 3},
        timeouts={
            "reserve": 60,
            "start": 120,
            "stop": 2,
            "driver_lost": 20,
            "heartbeat": SILENCE_S,
            "replace": REPLACE_S,
        },
    )


@pytest.mark.more(
    "integration/test_spark_async.py::test_rows_are_trained_once_an_epoch_also_where_an_executor_is_killed_that_feeds_them",
    "simulation/test_seeds.py::test_successors_join_the_attempt_that_has_lost_workers",
)
def test_training_goes_on_without_lost_workers_and_their_successors_join_it(lossy: Lossy) -> None:
    result = lossy.result
    attempt = result.attempts[0]
    host = attempt.hosts[0]
    assert [(lost.node, lost.exit_code) for lost in attempt.losses] == [
        ("worker 0", -signal.SIGKILL),
        *((lost.node, -signal.SIGKILL) for lost in attempt.losses[1:3]),  # at once: in any order
        ("worker 0", -signal.SIGKILL),
        ("worker 1", -signal.SIGTERM),
        ("worker 1", None),  # with its executor, whose end nobody tells of
        ("worker 0", -signal.SIGKILL),
    ]
    assert {lost.node for lost in attempt.losses[1:3]} == {"worker 0", "worker 1"}
    silent = f"worker 1 on {host} was silent for {SILENCE_S:g} s"
    assert attempt.losses[4].message == silent
    killed = [f"worker {i} on {host} exited with -9 (SIGKILL)" for i in (0, 1)]
    assert {lost.message for lost in (*attempt.losses[:4], attempt.losses[6])} == set(killed)
    assert {f"{text}: training goes on" for text in (*killed, silent)} <= set(result.warnings)
    logs = ("worker-0", "worker-0.1", "worker-0.2", "worker-0.3", "worker-1", "worker-1.1")
    told = [Path(lost.log) for lost in attempt.losses if lost.log]
    assert {log.name for log in told} == {f"001-{name}.log" for name in logs}
    assert all(has_trained(log) for log in told)
    assert all(not failure.node.startswith("worker") for failure in attempt.failures)


@pytest.mark.more(
    "unit/test_asynchronous.py::test_a_place_that_nobody_takes_in_time_gets_a_stand_in_and_then_whoever_comes_late",
    "trainer/test_joining.py::test_a_place_that_nobody_takes_has_a_server_that_executes_nothing_until_somebody_comes",
)
def test_training_goes_on_without_a_worker_whose_place_nobody_takes_until_somebody_comes(lossy: Lossy) -> None:
    result = lossy.result
    attempt = result.attempts[0]
    lost = attempt.losses[5]
    late = f"; it was not replaced within timeouts.replace: {REPLACE_S:g} s"
    assert lost.message.startswith(f"worker 1 on {attempt.hosts[0]} ")
    assert lost.message.endswith(late)
    assert f"{lost.message}: training goes on" in result.warnings
    assert [text for text in result.warnings if late in text] == [f"{lost.message}: training goes on"]
    assert attempt.losses[6].node == "worker 0", "lost meanwhile, and followed"


@pytest.mark.more(
    "unit/test_asynchronous.py::test_two_workers_lost_at_once_are_both_followed",
    "trainer/test_joining.py::test_two_workers_that_are_lost_at_once_join_one_right_after_the_other",
)
def test_workers_that_are_lost_at_once_are_both_back_as_soon_as_somebody_listens_in_their_places(
    lossy: Lossy,
) -> None:
    updates = lossy.first_epoch()
    last_us = max(update.time_us for update in updates if update.trainer in ("worker-0.1", "worker-1"))
    back_us = [min(u.time_us for u in updates if u.trainer == name) for name in ("worker-0.2", "worker-1.1")]
    assert max(back_us) - last_us < KNOBS.reconnect_s * 1e6


@pytest.mark.more(
    "simulation/test_cases.py::test_the_simulator_finds_it",
    "trainer/test_scheduled_loop.py::test_rows_and_updates_are_exact_also_where_a_worker_is_lost_and_after_a_resume",
)
def test_no_row_is_missing_whoever_is_lost_and_those_trained_twice_are_told_of(lossy: Lossy) -> None:
    result = lossy.result
    updates = lossy.first_epoch()
    counts = Counter(row for update in updates for row in update.rows)
    assert sorted(counts) == list(range(ROWS))
    told = result.rows[0]
    assert (told.planned, told.trained, told.set_aside, told.complete) == (ROWS, ROWS, 0, True)
    losses = len(result.attempts[0].losses)
    assert counts.total() - ROWS <= told.replayed <= 2 * losses * CALL_STEPS * BATCH
    assert min(steps_saved(result)) >= ROWS // BATCH
    names = (0, 0.1, 0.2, 0.3, 0.4, 1, 1.1, 1.2, 1.3)
    assert {update.trainer for update in updates} == {f"worker-{name}" for name in names}


@pytest.mark.more(
    "trainer/test_asynchronous.py::test_a_run_goes_on_exactly_under_another_strategy_and_on_other_numbers_of_nodes",
    "unit/test_usage.py::test_a_successors_use_is_added_to_that_of_the_one_before",
)
def test_each_node_tells_what_it_has_used_whoever_has_had_its_place(lossy: Lossy) -> None:
    attempt = lossy.result.attempts[0]
    telling = {node.node for node in attempt.nodes if node.usage is not None}
    assert telling == {"chief 0", "worker 0", "worker 1", "ps 0"}
    assert sum(node.made.rows for node in attempt.nodes if node.made is not None) >= ROWS
    for node in attempt.nodes:
        usage = node.usage or Usage()
        assert 0 < usage.seconds < attempt.duration_s
        assert 0 < usage.busy < 1.5  # processor time and seconds are not read at once
        assert min(usage.received_nbytes, usage.sent_nbytes) > 1_000
        assert (usage.work is None) == (node.made is None) == (not usage.staleness)
        if usage.work is not None and node.made is not None:
            assert all((seconds > 0) == (name != "function_s") for name, seconds in usage.work)
            assert usage.work.seconds < attempt.duration_s
            assert node.made.steps_s == pytest.approx(node.made.steps / usage.work.seconds)


@pytest.mark.more(
    "unit/test_asynchronous.py::test_without_a_coordinator_or_a_server_there_is_a_new_attempt",
    "simulation/test_cases.py::test_the_simulator_finds_it",
)
def test_a_lost_server_or_coordinator_is_named_and_the_next_attempt_goes_on_from_the_last_checkpoint(
    lossy: Lossy, elsewhere: ProcessPoolExecutor
) -> None:
    result = lossy.result
    assert result.verdict is Verdict.DONE
    host = result.attempts[0].hosts[0]
    causes = [attempt.root_cause for attempt in result.attempts]
    assert [cause and cause.message for cause in causes] == [
        f"ps 0 on {host} exited with -9 (SIGKILL)",
        f"chief 0 on {host} exited with -9 (SIGKILL)",
        None,
    ]
    assert [cause and Path(cause.log).name for cause in causes] == ["001-ps-0.log", "002-chief-0.log", None]
    first = min(steps_saved(result))
    assert [attempt.from_step for attempt in result.attempts] == [0, first, first]
    assert rows_by_epoch(updates_of_attempt(result), ROWS) == [list(range(ROWS))]
    assert accounts(result)[1] == (ROWS, ROWS, ROWS, True)
    assert (result.rows[1].replayed, result.steps) == (0, first + len(updates_of_attempt(result)))
    assert result.steps == elsewhere.submit(reference.iterations, result.checkpoint).result()


@pytest.mark.more(
    "trainer/test_aggregated.py::test_a_stuck_worker_costs_the_others_nothing_where_an_update_takes_fewer_and_nor_does_a_lost_one",
)
def test_successors_have_the_vocabulary_and_the_exported_model_is_the_one_that_was_trained(
    lossy: Lossy, elsewhere: ProcessPoolExecutor
) -> None:
    """A worker that looks colours up otherwise fails; see `zoo.looked_up`."""
    config, result = lossy.config, lossy.result
    trained = elsewhere.submit(reference.compare_checkpoint, config, result.checkpoint, result.model).result()
    assert trained.difference == 0
    assert trained.unmoved == []
    shapes, difference = elsewhere.submit(reference.compare_exports, config, result.model).result()
    assert shapes == {"price": [ROWS, 1], "label": [ROWS, lake.CLASSES]}
    assert difference <= 1e-6


def test_a_value_that_a_worker_refuses_ends_the_run_with_its_place_and_no_other_attempt(
    tmp_path: Path, gang: LocalGang, gate: Gate
) -> None:
    gate.open(0)
    rows = lake.write(tmp_path / "lake", [40, 40, 40]).slice(40, 40)
    x0 = pa.array([*rows["x0"].to_pylist()[:17], None, *rows["x0"].to_pylist()[18:]], pa.float32())
    rows = rows.set_column(rows.column_names.index("x0"), "x0", x0)
    pq.write_table(rows, tmp_path / "lake" / "part-001.parquet")
    with pytest.raises(
        BadValueError, match=r"part-001\.parquet.*\bx0\b.*\b17\b|part-001\.parquet.*\b17\b.*\bx0\b"
    ) as failure:
        gang.train(job(tmp_path))
    result = failure.value.result
    assert result.verdict is Verdict.DATA_REFUSED
    assert result.error.node.startswith("worker")
    assert [attempt.losses for attempt in result.attempts] == [()]


@pytest.mark.parametrize(
    ("flavour", "together"),
    only(("keras", None), of=[("keras", None), ("tf_keras", None), ("keras", 2), ("tf_keras", 1)]),
)
def test_the_history_has_the_metrics_of_the_training_rows_each_once_whoever_is_lost(
    flavour: str, together: int | None, tmp_path: Path, gang: LocalGang, gate: Gate, elsewhere: ProcessPoolExecutor
) -> None:
    """The weights stand still: whatever the order of the rows, Keras has the same metrics of all of them."""
    rows, lake_of = ROWS // 4, tmp_path / "lake"
    lake.write(lake_of, [ROWS // FILES] * (FILES // 4))
    gate.shut(0)
    gate.open(1)
    config = lake.job(
        tmp_path,
        "everything",
        params={"flavour": flavour, "rows": rows, "told": True, "learning_rate": 0.0, "measured": True},
        data={**lake.EVERYTHING, "shuffle_rows": 1, "validation": {"path": str(lake_of)}},
        cluster={"strategy": "parameter_server", "workers": 2, "ps": 1},
        train={"batch_size": BATCH, "steps_per_call": CALL_STEPS, "epochs": 2, "replicas_to_aggregate": together},
        timeouts={"reserve": 60, "start": 120, "stop": 2, "driver_lost": 20},
    )
    run = LosingRun(gang, config)
    attempt = run.wait_for_any_updates().partition("-")[0]  # other tests have had attempts of this gang before
    run.kill(f"{attempt}-worker-0")
    run.wait_for_updates(f"{attempt}-worker-0.1")
    gate.open(0)
    result = run.result()

    assert [lost.node for lost in result.attempts[0].losses] == ["worker 0"]
    assert accounts(result) == [(rows, rows, rows, True)] * 2
    expected = elsewhere.submit(reference.evaluate, config, str(lake_of), f"{result.model}/model.keras").result()
    names = ["label_accuracy", "label_iou", "label_sparse_categorical_crossentropy", "loss", "price_mae"]
    assert 0 < expected["label_iou"] < expected["label_accuracy"] < 1
    history = TrainedRun.of(result, open_storage(result.path)).history
    assert list(history["epoch"]) == [1, 2]
    for _, row in history.iterrows():
        assert {name: row[name] for name in names} == pytest.approx({name: expected[name] for name in names}, abs=1e-5)


@pytest.mark.more(
    "unit/test_asynchronous.py::test_a_coordinator_that_waits_for_a_frozen_worker_has_time_until_that_is_ended",
)
def test_a_worker_that_freezes_while_the_coordinator_traces_a_function_is_lost_alone(
    tmp_path: Path, gang: LocalGang, gate: Gate
) -> None:
    """TensorFlow then waits for it under Python's lock: of the coordinator nothing is heard either."""
    rows, held_out, traced = ROWS // 4, tmp_path / "held-out", tmp_path / "traced"
    lake.write(tmp_path / "lake", [ROWS // FILES] * (FILES // 4))
    lake.write(held_out, [8], seed=7)
    gate.shut(0)
    gate.open(1)
    run = LosingRun(gang, job(tmp_path, data={"validation": {"path": str(held_out)}}, rows=rows, traced=str(traced)))
    worker = run.wait_for_any_updates()
    with closing(Pipe(traced)) as pipe:
        gate.open(0)
        run.wait_for_log("chief-0", "traces an evaluation")
        run.freeze(worker)
        pipe.open()
        result = run.result()

    (attempt,) = result.attempts
    (lost,) = attempt.losses
    assert lost.message.endswith(f"was silent for {SILENCE_S:g} s")
    assert lost.node.startswith("worker")
    assert accounts(result) == [(rows, rows, rows, True)] * 2


def test_a_lost_evaluator_is_followed_by_another_and_the_best_weights_are_found_beside_the_training(
    tmp_path: Path, gang: LocalGang, gate: Gate, elsewhere: ProcessPoolExecutor
) -> None:
    """The model is spoiled in the third epoch, which the gate keeps from ending."""
    rows, held_out = 256, tmp_path / "held-out"
    lake.write(tmp_path / "lake", [16] * (rows // 16))
    lake.write(held_out, [50], seed=7)
    gate.open(0)
    gate.open(1)
    config = lake.job(
        tmp_path,
        "everything",
        cluster={"strategy": "parameter_server", "workers": 1, "ps": 1, "evaluator": True},
        params={"flavour": "tf_keras", "rows": rows, "rich": True, "until": 2 * rows // BATCH},
        data={**lake.RICH, "shuffle_rows": 1, "validation": {"path": str(held_out)}},
        train={"batch_size": BATCH, "steps_per_call": CALL_STEPS, "epochs": 3, "keep": "best"},
        checkpoint={"keep": 1},
        timeouts={"reserve": 60, "start": 120, "stop": 2, "driver_lost": 20, "replace": 60},
    )
    run = LosingRun(gang, config)
    run.wait_for_evaluation()
    run.end(run.trainer("evaluator-0"))
    gate.open(2)
    result = run.result()

    (attempt,) = result.attempts
    (lost,) = attempt.losses
    assert (lost.node, lost.exit_code) == ("evaluator 0", -signal.SIGKILL)
    assert f"{lost.message}: training goes on" in result.warnings
    logs = {path.name for path in Path(result.path, "logs").glob("*-evaluator-*")}
    assert logs == {f"{attempt.attempt:03d}-evaluator-{name}.log" for name in ("0", "0.1")}
    assert accounts(result) == [(rows, rows, rows, True)] * 3
    assert (result.evaluation_error, result.steps) == (None, 3 * rows // BATCH)

    steps = [evaluation.step for evaluation in result.validation]
    assert steps[-1] == result.steps
    assert set(steps) <= {epoch * rows // BATCH for epoch in (1, 2, 3)}
    assert len(steps) >= 2
    assert all(evaluation.rows == 50 for evaluation in result.validation)
    best = min(result.validation, key=lambda evaluation: evaluation.values["loss"])
    assert best.step < result.steps, "the model was not spoiled"
    assert result.kept is not None
    assert (result.kept.step, result.kept.value) == (best.step, best.values["loss"])
    exported = elsewhere.submit(reference.evaluate, config, str(held_out), f"{result.model}/model.keras").result()
    assert best.values == pytest.approx(exported, abs=1e-5)
    assert sorted(steps_saved(result)) == [best.step, result.steps]
    assert len(list(Path(result.path, "tensorboard", "validation").iterdir())) >= 2
