"""A synchronous gang that loses a member goes on without it: in the same attempt, and each row counts once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from integration.counts import counts_of
from integration.gates import Pipe
from integration.processes import wait_for
from split import only
from trainer import lake, reference
from trainer.local_gang import LocalGang
from trainer.losing import LosingRun
from trainer.results import accounts, steps_saved
from trainer.told import updates_by_number

from sparktf.config.job import JobConfig
from sparktf.results.result import RunResult
from sparktf.rundir import checkpoint_name

ROWS = 1200


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[tuple[Pipe, Pipe]]:
    made = Pipe(tmp_path / "first"), Pipe(tmp_path / "last")
    yield made
    for pipe in made:
        pipe.close()


FIRST, LAST = ROWS - 201, ROWS - 1
"""Rows that are trained by a worker that does not lead: all wait for it there."""


def waiting(folder: Path, pipes: tuple[Pipe, Pipe], model: str, workers: int = 3, **sections: Any) -> JobConfig:
    """Returns a training of a model of `zoo` that tells its rows, and waits at two of them."""
    lake.write(folder / "lake", [40] * (ROWS // 40))
    gates = [(row, str(pipe.path)) for row, pipe in zip((FIRST, LAST), pipes, strict=True)]
    return lake.job(
        folder,
        model,
        workers=workers,
        params={"flavour": "keras", "rows": ROWS, "told": True, "gates": gates, **sections.pop("params")},
        data={"shuffle": False, "shuffle_rows": 1, **sections.pop("data")},
        cluster={"collectives": "sparktf"},
        timeouts={"start": 120, "heartbeat": 60, "driver_lost": 60, **sections.pop("timeouts", {})},
        **sections,
    )


def counting(folder: Path, pipes: tuple[Pipe, Pipe], workers: int = 3, **sections: Any) -> JobConfig:
    """Returns a training of the model that counts how often it has seen each row, and waits at two of them."""
    sections |= {"params": {"by_sign": True}, "data": {"inputs": {"row": "row"}, "targets": {"label": "label"}}}
    return waiting(folder, pipes, "counted", workers, **sections)


def joiners(gang: LocalGang) -> bool:
    """Whether a successor waits to join."""
    attempt = gang.gang.attempt
    generations = None if attempt is None else attempt.reporters.generations
    return generations is not None and bool(generations.waiting)


@pytest.mark.parametrize("steps", only(16, of=[1, 16]))
def test_a_worker_that_is_killed_costs_one_update_and_no_row_and_its_successor_joins_the_others(
    steps: int, tmp_path: Path, pipes: tuple[Pipe, Pipe], gang: LocalGang
) -> None:
    first, last = pipes
    train = {"batch_size": 12, "epochs": 2, "steps_per_call": steps}
    run = LosingRun(gang, counting(tmp_path, pipes, train=train))
    lost = run.who_trains(FIRST)
    assert not lost.endswith("-worker-0")
    run.kill(lost)
    first.open()
    wait_for("a successor", lambda: joiners(gang), within_s=60)
    last.open()
    run.wait_for_updates(f"{lost}.1")
    result = run.result()
    check(result, lost, gang.output.getvalue())
    # All have rows until the end: a few updates with less than the others are those where somebody is lost or joins.
    assert result.steps <= 2 * ROWS // 12 + 4


def test_who_comes_to_lead_does_not_store_again_what_is_stored(
    tmp_path: Path, pipes: tuple[Pipe, Pipe], gang: LocalGang
) -> None:
    first, last = pipes
    train, checkpoint = {"batch_size": 12, "epochs": 1}, {"every_steps": 10, "keep": 100}
    run = LosingRun(gang, counting(tmp_path, pipes, train=train, checkpoint=checkpoint))
    waits = run.who_trains(FIRST)
    made = max(len(updates) for updates in run.updates().values()) - 1
    run.wait_for_checkpoint(made // 10 * 10)
    run.kill(f"{waits.partition('-')[0]}-worker-0")
    first.open()
    last.open()
    result = run.result()
    (attempt,) = result.attempts
    assert [loss.node for loss in attempt.losses] == ["worker 0"]
    assert sorted(steps_saved(result)) == [*range(10, result.steps, 10), result.steps]
    assert counts_of(result.model, ROWS).tolist() == [1.0] * ROWS


def test_weights_slots_iterations_and_loss_are_those_of_one_process_that_makes_the_same_updates(
    tmp_path: Path, pipes: tuple[Pipe, Pipe], gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    first, last = pipes
    params = {"optimizer": "AdamW", "learning_rate": 0.005, "global_clipnorm": 0.44, "averages": 0.8, "numbered": True}
    train = {"batch_size": 36, "steps_per_call": 4}
    config = waiting(tmp_path, pipes, "everything", params=params, data=lake.EVERYTHING, train=train)
    run = LosingRun(gang, config)
    run.kill(run.who_trains(FIRST))
    first.open()
    wait_for("a successor", lambda: joiners(gang), within_s=60)
    last.open()
    result = run.result()
    (attempt,) = result.attempts
    assert len(attempt.losses) == 1

    updates = updates_by_number(result)
    assert sorted(row for rows in updates for row in rows) == list(range(ROWS))
    alike = config.model_copy(update={"params": {**config.params, "gates": []}})
    model = f"{result.model}/model.keras"
    found = elsewhere.submit(reference.compare_training, alike, updates, model, result.checkpoint).result()
    assert found.difference <= 1e-5
    assert found.state <= 1e-3
    assert found.iterations == len(updates) == result.steps
    assert result.metrics["train"]["loss"] == pytest.approx(found.loss, abs=1e-5)
    assert found.moved > 1e-2


def test_a_worker_that_stands_still_is_left_behind_and_comes_back_as_another_one(
    tmp_path: Path, pipes: tuple[Pipe, Pipe], gang: LocalGang
) -> None:
    first, last = pipes
    config = counting(tmp_path, pipes, train={"batch_size": 10, "epochs": 2}, timeouts={"heartbeat": 6})
    run = LosingRun(gang, config)
    lost = run.who_trains(FIRST)
    run.freeze(lost)
    first.open()
    wait_for("a successor", lambda: joiners(gang), within_s=60)
    last.open()
    check(run.result(), lost, gang.output.getvalue())


def test_too_few_workers_wait_for_a_successor_and_where_none_comes_the_next_attempt_begins_where_they_had_come(
    tmp_path: Path, pipes: tuple[Pipe, Pipe], gang: LocalGang
) -> None:
    first, last = pipes
    train = {"batch_size": 10, "epochs": 2, "min_workers": 5}
    run = LosingRun(gang, counting(tmp_path, pipes, workers=5, train=train, timeouts={"replace": 5}))
    lost = run.who_trains(FIRST)
    run.kill(lost)
    first.open()
    run.wait_for_words("all workers again at update")
    lost_again = run.who_trains(LAST)
    place = run.take_executor(lost_again)
    last.open()
    run.wait_for_words("attempt 1 of 3 failed")
    run.give_executor(place)
    result = run.result()
    before, after = result.attempts
    (outlived,) = before.outlived
    assert (outlived.workers, outlived.step) == (5, outlived.whole_step)
    waits = [text for text in result.warnings if "training waits for another: of at least 5 workers 4 are left" in text]
    assert len(waits) == 2
    assert before.root_cause is not None
    assert "only 4 of 5 workers would be left, but at least 5 are needed" in before.root_cause.message
    assert before.root_cause.node.replace(" ", "-") == lost_again.partition("-")[2].partition(".")[0]
    assert 0 < before.to_step == after.from_step
    assert accounts(result) == [(ROWS, ROWS, ROWS, True)] * 2
    assert counts_of(result.model, ROWS).tolist() == [2.0] * ROWS


def test_where_the_leader_alone_remembers_something_the_others_store_what_they_have_without_it(
    tmp_path: Path, pipes: tuple[Pipe, Pipe], gang: LocalGang
) -> None:
    first, last = pipes
    heard = tmp_path / "heard"
    config = counting(tmp_path, pipes, train={"batch_size": 10, "epochs": 2, "callbacks": "trainer.heard:telling"})
    params = {**config.params, "heard": str(heard), "last": 9}
    run = LosingRun(gang, config.model_copy(update={"params": params}))
    waits = run.who_trains(FIRST)
    run.kill(f"{waits.partition('-')[0]}-worker-0")
    first.open()
    last.open()
    result = run.result()
    before, after = result.attempts
    assert before.root_cause is not None
    assert before.root_cause.node == "worker 0"
    assert before.root_cause.message.endswith("since what train.callbacks remember is the leader's alone")
    assert 0 < before.to_step == after.from_step
    ends = [told["what"] for told in map(json.loads, heard.read_text().splitlines()) if "end" in told["what"]]
    assert ends == [end for end in ("end 0", "end 1", "end") for _ in range(2)]
    assert accounts(result) == [(ROWS, ROWS, ROWS, True)] * 2
    assert counts_of(result.model, ROWS).tolist() == [2.0] * ROWS


DEATHS = [(n, after) for n in (40, 1, 17, 2, 23, 3, 9, 5, 31, 4, 12, 7) for after in (False, True)]
"""Operations of a trainer, and whether it dies after the last of these, or before. Those that die early are apart:
else their node would be given up, as one whose trainers train no row.
"""
SOME = [(40, False), (1, True), (17, False), (2, True), (23, True), (3, False)]


def mortals(folder: Path, deaths: list[tuple[int, bool]], *, validation: bool = True, **sections: Any) -> JobConfig:
    """Returns a training of `trainer.mortal` on 240 rows, on which it may be evaluated, too."""
    lake.write(folder / "lake", [40] * 6)
    (folder / "deaths").mkdir()
    held_out = {"validation": {"path": str(folder / "lake")}} if validation else {}
    mortal = {"deaths": str(folder / "deaths"), "dies": deaths, **sections.pop("params", {})}
    config = lake.job(
        folder,
        "counted",
        workers=3,
        params={"flavour": "keras", "rows": 240, "by_sign": True, **mortal},
        data={"inputs": {"row": "row"}, "targets": {"label": "label"}, "shuffle_rows": 1, **held_out},
        cluster={"collectives": "sparktf"},
        **sections,
    )
    return config.model_copy(update={"model": "trainer.mortal:build"})


@pytest.mark.parametrize(("steps", "deaths"), only((16, SOME), of=[(16, SOME), (1, DEATHS), (16, DEATHS)]))
def test_a_worker_may_be_lost_before_and_after_each_of_its_operations(
    steps: int, deaths: list[tuple[int, bool]], tmp_path: Path, gang: LocalGang
) -> None:
    train = {"batch_size": 12, "epochs": 100, "steps_per_call": steps}
    result = gang.train(mortals(tmp_path, deaths, validation=False, train=train, checkpoint={"every_steps": 50}))
    assert len(list((tmp_path / "deaths").iterdir())) == len(deaths)
    (attempt,) = result.attempts
    assert [loss.node for loss in attempt.losses] == ["worker 2"] * len(deaths)
    assert accounts(result) == [(240, 240, 240, True)] * 100
    assert counts_of(result.model, 240).tolist() == [100.0] * 240


def test_rows_set_aside_and_blocks_that_stay_whole_are_dealt_again_like_others_until_the_last_update(
    tmp_path: Path, gang: LocalGang
) -> None:
    bad, steps = {3, 41, 77, 78, 120, 239}, 2005
    train = {"batch_size": 12, "epochs": 100_000, "max_steps": steps}
    config = mortals(tmp_path, SOME, validation=False, train=train)
    table = lake.rows(240)
    mask = np.isin(np.arange(240), list(bad))
    label = pa.array(table["label"].to_numpy(), mask=mask)
    table = table.set_column(table.column_names.index("label"), "label", label)
    for path in (tmp_path / "lake").iterdir():
        path.unlink()
    pq.write_table(table, tmp_path / "lake" / "part-000.parquet", row_group_size=40)
    data = config.data.model_copy(update={"rebalance": False, "max_bad_rows": len(bad)})
    result = gang.train(config.model_copy(update={"data": data}))
    (attempt,) = result.attempts
    assert len(attempt.losses) == len(SOME)
    assert attempt.replay_end.startswith(f"data.rebalance: off ends at update {attempt.outlived[0].step:,}: ")
    assert result.steps == steps
    whole = [(epoch.fed, epoch.trained, epoch.set_aside) for epoch in result.rows if epoch.complete]
    assert whole == [(240, 240 - len(bad), len(bad))] * len(whole)
    assert len(result.rows) - len(whole) <= 1
    counts = counts_of(result.model, 240)
    assert {int(counts[row]) for row in bad} == {0}
    assert {int(count) for count in counts[~mask]} <= {len(whole), len(whole) + 1}
    assert int(counts.sum()) == sum(epoch.trained for epoch in result.rows)


@pytest.mark.more("trainer/test_regrouping.py::test_a_leader_may_be_lost_before_and_after_each_of_its_operations")
def test_who_has_joined_and_comes_to_lead_ends_the_run_in_time(tmp_path: Path, gang: LocalGang) -> None:
    """The first leader's successor leads once the second one is lost, too."""
    train = {"batch_size": 12, "epochs": 100_000, "max_seconds": 60, "reserve": 5}
    deaths = [(60, False), (17, True)]
    result = gang.train(mortals(tmp_path, deaths, validation=False, params={"leaders_die": True}, train=train))
    (attempt,) = result.attempts
    assert [loss.node for loss in attempt.losses] == ["worker 0", "worker 1"]
    assert result.stopped is not None
    assert result.stopped.reason == "max_seconds"
    counts = counts_of(result.model, 240)
    assert int(counts.sum()) == sum(epoch.trained for epoch in result.rows)
    assert counts.max() - counts.min() <= 1


def test_a_worker_that_joins_compares_with_the_others_the_weights_that_were_the_best_before_it_came(
    tmp_path: Path, gang: LocalGang
) -> None:
    config = mortals(
        tmp_path,
        [(60, False)],
        params={"aim": 1},
        train={"batch_size": 12, "epochs": 40, "keep": "best", "keep_metric": "far", "keep_mode": "min"},
        publish={},
        gate={"metrics": {"far": {"max": 79.0, "mode": "min"}}},
    )
    result = gang.train(config)
    (attempt,) = result.attempts
    (outlived,) = attempt.outlived
    assert 20 < outlived.step < (outlived.whole_step or 0), "it has not joined after the first epoch"
    assert result.comparison is not None
    (difference,) = result.comparison.differences
    # The model gives each row's count times the rows of a worker, 80; the gate looks at each row apart.
    assert (difference.challenger, difference.rows, difference.finding) == (80 * 1 - 1, 240, "good")
    assert counts_of(result.model, 240).tolist() == [1.0] * 240
    assert accounts(result) == [(240, 240, 240, True)] * 40


LEADERS = [(60, False), (17, True), (1, False), (31, True), (2, True), (23, False), (3, True), (36, False), (28, True)]
FEWER = LEADERS[:4]
AIM, PATIENCE = 1, 50


@pytest.mark.parametrize(("steps", "deaths"), only((16, FEWER), of=[(16, FEWER), (1, LEADERS), (16, LEADERS)]))
def test_a_leader_may_be_lost_before_and_after_each_of_its_operations(
    steps: int, deaths: list[tuple[int, bool]], tmp_path: Path, gang: LocalGang
) -> None:
    """The first is lost after the best epoch: who leads in the end exports its weights, and stops by all epochs."""
    train = {
        "batch_size": 12,
        "epochs": 200,
        "steps_per_call": steps,
        "keep": "best",
        "keep_metric": "val_far",
        "keep_mode": "min",
        "early_stopping": {"metric": "val_far", "mode": "min", "patience": PATIENCE},
    }
    params = {"leaders_die": True, "aim": AIM}
    result = gang.train(mortals(tmp_path, deaths, params=params, train=train, checkpoint={"every_steps": 50}))
    assert len(list((tmp_path / "deaths").iterdir())) == len(deaths)
    (attempt,) = result.attempts
    assert len(attempt.losses) == len(deaths)
    assert {loss.node for loss in attempt.losses} >= {"worker 0", "worker 1"}
    assert attempt.outlived[0].step >= AIM * 240 // 12
    assert accounts(result) == [(240, 240, 240, True)] * (AIM + PATIENCE)
    assert [(told.epoch, told.values["far"]) for told in result.validation] == [
        (epoch, abs(AIM - 1 - epoch)) for epoch in range(AIM + PATIENCE)
    ]
    assert result.stopped is not None
    assert (result.stopped.reason, result.stopped.epoch) == ("early_stopping", AIM + PATIENCE - 1)
    assert result.kept is not None
    assert result.kept.epoch == AIM - 1
    assert counts_of(result.model, 240).tolist() == [AIM] * 240


def test_a_leader_may_be_lost_while_it_exports_the_best_weights(tmp_path: Path, gang: LocalGang) -> None:
    """The first one after its files are stored, the second one before: the third one stores all that is there."""
    train = {"batch_size": 12, "epochs": 4, "keep": "best", "keep_metric": "val_far", "keep_mode": "min"}
    (tmp_path / "exports").mkdir()
    result = gang.train(mortals(tmp_path, [], params={"aim": 2, "exports": str(tmp_path / "exports")}, train=train))
    (attempt,) = result.attempts
    assert [loss.node for loss in attempt.losses] == ["worker 0", "worker 1"]
    assert result.kept is not None
    assert result.kept.epoch == 1
    assert counts_of(result.model, 240).tolist() == [2.0] * 240
    assert accounts(result) == [(240, 240, 240, True)] * 4
    assert Path(result.checkpoint).name == checkpoint_name(result.steps)


def check(result: RunResult, lost: str, said: str) -> None:
    """Checks that the run took one attempt, and trained each row twice, once an epoch."""
    (attempt,) = result.attempts
    assert [failure.node.replace(" ", "-") for failure in attempt.losses] == [lost.partition("-")[2]]
    (outlived,) = attempt.outlived
    assert list(outlived.nodes) == [failure.node for failure in attempt.losses]
    assert (outlived.workers, 0 < outlived.step < (outlived.whole_step or 0) < result.steps) == (2, True)
    assert 0 < outlived.after_s < 10
    (node,) = outlived.nodes
    assert f"{node} lost at update {outlived.step:,}: went on with 2 after" in said
    assert f"all workers again at update {outlived.whole_step:,}" in said
    assert accounts(result) == [(ROWS, ROWS, ROWS, True)] * 2
    assert counts_of(result.model, ROWS).tolist() == [2.0] * ROWS
