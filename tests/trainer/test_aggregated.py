"""Updates that several workers make together, over parameter servers, in real processes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from integration.processes import wait_for
from trainer import lake, reference
from trainer.local_gang import LocalGang
from trainer.results import accounts, steps_saved
from trainer.told import Update, updates_of_attempt

from sparktf.errors import ModelContractError

TOLERANCE = 1e-5


@pytest.mark.parametrize(("flavour", "model"), [("keras", "sharded"), ("tf_keras", "everything")])
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


def test_a_slow_worker_costs_the_others_nothing_where_an_update_takes_fewer_and_nor_does_a_lost_one(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [60] * 20)
    config = lake.job(
        tmp_path,
        "everything",
        params={"flavour": "keras", "rows": 1200, "told": True},
        data={**lake.EVERYTHING, "shuffle_rows": 1},
        cluster={"strategy": "parameter_server", "workers": 2, "ps": 1},
        train={"batch_size": 4, "epochs": 2, "replicas_to_aggregate": 1, "steps_per_call": 8},
        timeouts={"heartbeat": 60, "driver_lost": 60},
    )
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(gang.train, config)
        slow = wait_for("a gradient of worker 1", partial(training, gang, "worker-1", 1), within_s=60)[0]
        for _ in range(2):
            slow.suspend()
            others = gradients_so_far(gang, "worker-0")
            wait_for("updates without it", partial(training, gang, "worker-0", others + 10), within_s=60)
            mine = gradients_so_far(gang, "worker-1")
            slow.resume()
            wait_for("a gradient of its own", partial(training, gang, "worker-1", mine + 2), within_s=60)
        others = gradients_so_far(gang, "worker-0")
        slow.kill()
        wait_for("updates after its end", partial(training, gang, "worker-0", others + 10), within_s=60)
        result = running.result()
    assert len(result.attempts) == 1
    assert accounts(result) == [(1200, 1200, 1200, True)] * 2
    assert sum(rows.dropped for rows in result.rows) >= 2


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
    with pytest.raises(ModelContractError, match="replicas_to_aggregate is for what build"):
        gang.train(config)


def gradients_so_far(gang: LocalGang, trainer: str) -> int:
    """Returns how many gradients a trainer has computed so far, by its log."""
    (process,) = training(gang, trainer, 0)
    return Path(f"/proc/{process.pid}/fd/1").read_text().count("trained")


def training(gang: LocalGang, trainer: str, updates: int) -> list[psutil.Process]:
    """Returns the process of a trainer, once it has made so many updates."""
    if gang.agents is None:
        return []
    logs = [log for log in gang.agents.folder.rglob(f"*-{trainer}.log") if log.read_text().count("trained") >= updates]
    every = [child for agent in gang.agents.pids() for child in psutil.Process(agent).children(recursive=True)]
    return [child for child in every if Path(f"/proc/{child.pid}/fd/1").resolve() in logs]
