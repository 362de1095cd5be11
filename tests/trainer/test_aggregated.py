"""Updates that several workers make together, over parameter servers, in real processes."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from integration.gates import Pipe
from split import only
from trainer import lake, reference
from trainer.local_gang import LocalGang
from trainer.losing import LosingRun
from trainer.results import accounts, steps_saved
from trainer.told import Update, updates_of_attempt

from sparktf.errors import ModelContractError

TOLERANCE = 1e-5


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[tuple[Pipe, Pipe]]:
    made = Pipe(tmp_path / "first"), Pipe(tmp_path / "last")
    yield made
    for pipe in made:
        pipe.close()


@pytest.mark.parametrize(
    ("flavour", "model"), only(("keras", "sharded"), of=[("keras", "sharded"), ("tf_keras", "everything")])
)
def test_updates_that_all_workers_make_together_are_those_of_one_process(
    flavour: str, model: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [300, 37, 0, 1, 200])
    data: dict[str, Any] = {**lake.EVERYTHING, "shuffle_rows": 1}
    if model == "sharded":
        data |= {"targets": {"label": "label"}, "sample_weight": "weight"}
    config = lake.job(
        tmp_path,
        model,
        params={"flavour": flavour, "rows": 538, "told": True},
        data=data,
        cluster={"strategy": "parameter_server", "workers": 2, "ps": 2},
        train={"batch_size": 32, "epochs": 2, "max_steps": 15, "steps_per_call": 2, "replicas_to_aggregate": 2},
        checkpoint={"every_steps": 4, "every_seconds": None, "keep": 10},
    )
    result = gang.train(config)
    gradients = updates_of_attempt(result)
    first, second = by_epoch(gradients, 538)
    updates = [*together(first), *together(second)]
    assert len(updates) == result.steps == 15
    assert sorted(row for update in together(first) for row in update) == list(range(538))
    assert max(map(len, updates)) == 64
    trained = sum(len(gradient.rows) for gradient in second)
    assert accounts(result) == [(538, 538, 538, True), (538, trained, trained, False)]
    assert [rows.dropped for rows in result.rows] == [0, 0]
    assert set(steps_saved(result)) >= {4, 8, 12, 15}
    assert elsewhere.submit(reference.iterations, result.checkpoint).result() == 15
    compared = elsewhere.submit(reference.compare_training, config, updates, f"{result.model}/model.keras").result()
    assert compared.difference <= TOLERANCE
    assert compared.moved > 100 * TOLERANCE


def by_epoch(gradients: Sequence[Update], rows: int) -> tuple[list[Update], list[Update]]:
    """Returns those that have the first `rows` rows, and the others."""
    ends = list(itertools.accumulate(len(gradient.rows) for gradient in gradients))
    first = ends.index(rows) + 1
    return list(gradients[:first]), list(gradients[first:])


def together(gradients: Sequence[Update]) -> list[list[int]]:
    """Returns the rows of each update that two workers have made together, one of them alone where the other is dry."""
    updates: list[dict[str, Sequence[int]]] = []
    for gradient in gradients:
        if not updates or gradient.trainer in updates[-1]:
            updates.append({})
        updates[-1][gradient.trainer] = gradient.rows
    return [[row for rows in update.values() for row in rows] for update in updates]


def test_a_stuck_worker_costs_the_others_nothing_where_an_update_takes_fewer_and_nor_does_a_lost_one(
    tmp_path: Path, gang: LocalGang, pipes: tuple[Pipe, Pipe], elsewhere: ProcessPoolExecutor
) -> None:
    """The model has a vocabulary, BatchNorm and Dropout, too, and a successor must have all of it."""
    rows, block = 600, 60
    first, last = pipes
    lake.write(tmp_path / "lake", [block] * (rows // block))
    config = lake.job(
        tmp_path,
        "everything",
        params={
            "flavour": "tf_keras",
            "rows": rows,
            "told": True,
            "rich": True,
            "gates": [(0, str(first.path)), (rows - 1, str(last.path))],
        },
        data={**lake.RICH, "shuffle": False, "shuffle_rows": 1},
        cluster={"strategy": "parameter_server", "workers": 2, "ps": 1},
        train={"batch_size": 4, "replicas_to_aggregate": 1, "steps_per_call": 8},
        timeouts={"start": 120, "heartbeat": 60, "driver_lost": 60},
    )
    run = LosingRun(gang, config)
    stuck, other = run.who_trains(0), run.who_trains(rows - 1)
    updates = run.updates()
    assert len(updates[stuck]) == 1
    assert sum(map(len, updates[other])) >= rows - 3 * block  # all but what the stuck one has leased
    run.kill(other)
    last.open()
    run.wait_for_updates(f"{other}.1")
    assert len(run.updates()[stuck]) == 1
    first.open()
    result = run.result()
    (attempt,) = result.attempts
    assert [(lost.node, lost.exit_code) for lost in attempt.losses] == [(f"worker {other[-1]}", -signal.SIGKILL)]
    assert accounts(result) == [(rows, rows, rows, True)]
    assert result.rows[0].dropped >= 1, "the one that the stuck one had computed"
    assert {row for update in updates_of_attempt(result) for row in update.rows} == set(range(rows))
    trained = elsewhere.submit(reference.compare_checkpoint, config, result.checkpoint, result.model).result()
    assert trained.difference == 0
    assert trained.unmoved == []
    shapes, difference = elsewhere.submit(reference.compare_exports, config, result.model).result()
    assert shapes == {"price": [rows, 1], "label": [rows, lake.CLASSES]}
    assert difference <= 1e-6


def test_a_loop_of_the_users_own_is_not_told_how_many_make_an_update(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [40])
    config = lake.job(
        tmp_path,
        "loop",
        params={"flavour": "keras"},
        data=lake.NUMBERS_TO_LABEL,
        cluster={"strategy": "parameter_server", "workers": 1, "ps": 1},
        train={"replicas_to_aggregate": 1},
    )
    with pytest.raises(ModelContractError, match="replicas_to_aggregate applies to a model from build"):
        gang.train(config)
