"""The exactness matrix: one epoch over N uneven workers gives what one process makes of the same updates.

That is the weights, the optimizer's slots, its count of updates and the loss, over both kinds of collectives.

`make test` has each pair of two factors' values in one gang, `make test-more` the others.

Real runs, from plan to export, of a model with all that could go wrong (`zoo.everything`). The reference is plain Keras
in one process, fed from the files by row number: it shares only the plan's order with what it checks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from split import in_pairs
from trainer import lake, reference
from trainer.local_gang import LocalGang, updates_of, worker_rows

from sparktf.config.job import JobConfig
from sparktf.results.result import RunResult

TOLERANCE = 1e-5
"""Of weights and of the loss; of slots, relative to the greatest value of each, `SLOTS`."""

SLOTS = 1e-3

# Rows of each file: a row group, a shuffle block, and (there are as many blocks as workers) a worker's share.
SIZES = {
    ("even", 2): (300, 300),
    ("even", 3): (200, 200, 200),
    ("uneven", 1): (400, 130, 37),
    ("uneven", 2): (400, 37),
    ("uneven", 3): (400, 130, 37),
    ("empty", 2): (300, 0),
    ("empty", 3): (300, 200, 0),
    ("uneven", 5): (300, 130, 64, 37, 9),
    ("empty", 5): (300, 130, 37, 0, 0),
}

# The limits lie among the norms: were every update clipped, that would hide a wrong scale as Adam does.
TRAININGS: dict[str, dict[str, Any]] = {
    "SGD": {"learning_rate": 0.2, "global_clipnorm": 0.42, "shards": 2},
    "AdamW": {"learning_rate": 0.005, "global_clipnorm": 0.44, "averages": 0.8, "compiled": True},
}
"""By optimizer: with tables in shards, or with weight decay, averages, a constraint and a layer that XLA compiles."""


class Case(NamedTuple):
    """One cell of the matrix."""

    workers: int
    flavour: str
    split: str
    optimizer: str
    collectives: str = "auto"
    nursery: str = "on"

    def __str__(self) -> str:
        begin = "" if self.nursery == "on" else "-from-nothing"
        by = "-by-tensorflow" if self.collectives == "tensorflow" else ""
        return f"{self.flavour}-{self.workers}-{self.split}-{self.optimizer}{by}{begin}"

    @property
    def summed_by(self) -> str:
        return "sparktf" if self.collectives == "auto" else self.collectives

    @property
    def sizes(self) -> tuple[int, ...]:
        return SIZES[self.split, self.workers]

    def config(self, base: Path) -> JobConfig:
        """Returns the configuration; writes its lake where it is not there."""
        folder = base / f"{self.split}-{self.workers}"
        if not folder.exists():
            lake.write(folder / "lake", self.sizes)
        begun = {"begun": "sparktf.trainer.__main__"} if self.nursery == "off" else {}
        return lake.job(
            folder,
            "without_spark" if begun else "everything",
            name=str(self),
            workers=self.workers,
            params={
                "flavour": self.flavour,
                "rows": sum(self.sizes),
                "optimizer": self.optimizer,
                **TRAININGS[self.optimizer],
                **begun,
            },
            data={**lake.EVERYTHING, "rebalance": False, "shuffle_rows": 1, "shuffle": self.split != "even"},
            train={"batch_size": 64, "steps_per_call": 8},
            cluster={"nursery": self.nursery, "collectives": self.collectives},
        )


FROM_NOTHING = [Case(2, flavour, "uneven", "AdamW", nursery="off") for flavour in ("keras", "tf_keras")]
"""The others are forked by a nursery. These find nothing of Spark, either."""
OF_FIVE = [
    Case(5, *factors) for factors in itertools.product(("keras", "tf_keras"), ("empty", "uneven"), ("SGD", "AdamW"))
]
CASES = [
    FROM_NOTHING[0],
    OF_FIVE[0],
    *(
        Case(*factors)
        for factors in itertools.product(
            (3, 2, 1), ("keras", "tf_keras"), ("even", "uneven", "empty"), ("SGD", "AdamW"), ("auto", "tensorflow")
        )
        # One worker has all rows, never runs dry, and has nothing to sum.
        if factors[0] > 1 or factors[2::2] == ("uneven", "auto")
    ),
    FROM_NOTHING[1],
]
LEFT_OUT = (FROM_NOTHING[0]._replace(nursery="on"), FROM_NOTHING[1], *OF_FIVE[1:])
"""How a trainer begins is no factor: one that begins from nothing is in the place of its twin."""


class Done(NamedTuple):
    """A case that has run."""

    config: JobConfig
    result: RunResult


class Lane(NamedTuple):
    """A gang, whose runs are one after another."""

    gang: LocalGang
    pool: ThreadPoolExecutor

    def run(self, config: JobConfig) -> Done:
        return Done(config, self.gang.train(config))


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Case, Future[Done]]]:
    """The runs of all selected cases, under way."""
    base = tmp_path_factory.mktemp("exactness")
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    asked = {item.callspec.params["case"] for item in items}
    selected = [case for case in (*CASES, *OF_FIVE[1:]) if case in asked]
    lanes: dict[str, Lane] = {}
    done: dict[Case, Future[Done]] = {}
    for place, case in enumerate(selected):
        # While one gang waits for its heartbeats, another computes.
        name = "begun" if case.nursery == "off" else "five" if case.workers == 5 or place % 2 else "three"
        config = case.config(base)
        if name not in lanes:
            lanes[name] = Lane(LocalGang(config, {"begun": 2, "three": 3, "five": 5}[name]), ThreadPoolExecutor(1))
        done[case] = lanes[name].pool.submit(lanes[name].run, config)
    yield done
    for lane in lanes.values():
        lane.pool.shutdown(cancel_futures=True)
        lane.gang.close()


@pytest.mark.parametrize(
    "case",
    [
        *in_pairs([case for case in CASES if case not in LEFT_OUT]),
        *(pytest.param(case, marks=pytest.mark.more) for case in LEFT_OUT),
    ],
    ids=str,
)
def test_weights_are_those_of_one_process(
    case: Case, runs: dict[Case, Future[Done]], elsewhere: ProcessPoolExecutor
) -> None:
    config, result = runs[case].result()
    shares = [share["input:row"].tolist() for share in worker_rows(config)]
    updates = updates_of(config)

    loads = sorted(map(len, shares), reverse=True)
    assert loads == (list(case.sizes) if case.workers > 1 else [sum(case.sizes)])
    assert sorted(itertools.chain(*shares)) == list(range(sum(case.sizes)))
    rows = result.rows[0]
    assert (rows.planned, rows.fed, rows.trained) == (sum(case.sizes),) * 3
    assert result.steps == len(updates)
    assert result.attempts[0].collectives.partition(":")[0] == (case.summed_by if case.workers > 1 else "")
    share = -(-len(os.sched_getaffinity(0)) // case.workers) if case.workers > 1 else None
    assert {node.threads for node in result.attempts[0].nodes} == {share}
    logs = (Path(result.path) / "logs").iterdir()
    assert not [log for log in logs if "starts from nothing" in log.read_text()]

    alike = config.model_copy(update={"model": "trainer.zoo:everything"})
    exported = f"{result.model}/model.keras"
    found = elsewhere.submit(reference.compare_training, alike, updates, exported, result.checkpoint).result()
    assert found.difference <= TOLERANCE
    assert found.state <= SLOTS
    assert found.iterations == len(updates)
    assert result.metrics["train"]["loss"] == pytest.approx(found.loss, abs=TOLERANCE)
    assert found.moved > 1000 * TOLERANCE
    clipped = np.array(found.norms) > config.params["global_clipnorm"]
    assert clipped.any()
    assert not clipped.all()
