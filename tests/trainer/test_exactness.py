"""The exactness matrix: one epoch over N uneven workers gives the weights of one process over the same updates.

`make test` has each pair of two factors' values in one gang, `make test-more` the others.

Real runs, from plan to export, of a model with all that could go wrong (`zoo.everything`). The reference is plain Keras
in one process, fed from the files by row number: it shares only the plan's order with what it checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import pytest
from split import in_pairs
from trainer import lake, reference
from trainer.local_gang import LocalGang, updates_of, worker_rows

from sparktf.config.job import JobConfig
from sparktf.results.result import RunResult

TOLERANCE = 1e-5
GANGS = 2
"""So many cases run at once: while one waits for its heartbeats, the other computes."""

# Rows of each file: a row group, a shuffle block, and (there are as many blocks as workers) a worker's share.
SIZES = {
    ("even", 2): (300, 300),
    ("even", 3): (200, 200, 200),
    ("uneven", 1): (400, 130, 37),
    ("uneven", 2): (400, 37),
    ("uneven", 3): (400, 130, 37),
    ("empty", 2): (300, 0),
    ("empty", 3): (300, 200, 0),
}


class Case(NamedTuple):
    """One cell of the matrix."""

    workers: int
    flavour: str
    split: str
    optimizer: str
    nursery: str = "on"

    def __str__(self) -> str:
        begin = "" if self.nursery == "on" else "-from-nothing"
        return f"{self.flavour}-{self.workers}-{self.split}-{self.optimizer}{begin}"

    @property
    def sizes(self) -> tuple[int, ...]:
        return SIZES[self.split, self.workers]

    def config(self, base: Path) -> JobConfig:
        """Returns the configuration; writes its lake where it is not there."""
        folder = base / f"{self.split}-{self.workers}"
        if not folder.exists():
            lake.write(folder / "lake", self.sizes)
        # The limits lie among the norms: were every update clipped, that would hide a wrong scale as Adam does.
        begun = {"begun": "sparktf.trainer.__main__"} if self.nursery == "off" else {}
        rate, limit = {"SGD": (0.2, 0.42), "Adam": (0.005, 0.44)}[self.optimizer]
        return lake.job(
            folder,
            "without_spark" if begun else "everything",
            name=str(self),
            workers=self.workers,
            params={
                "flavour": self.flavour,
                "rows": sum(self.sizes),
                "optimizer": self.optimizer,
                "learning_rate": rate,
                "global_clipnorm": limit,
                **begun,
            },
            data={**lake.EVERYTHING, "rebalance": False, "shuffle_rows": 1, "shuffle": self.split != "even"},
            train={"batch_size": 64, "steps_per_call": 8},
            cluster={"nursery": self.nursery},
        )


FROM_NOTHING = [Case(2, flavour, "uneven", "Adam", nursery="off") for flavour in ("keras", "tf_keras")]
"""The others are forked by a nursery. These find nothing of Spark, either."""
CASES = [
    FROM_NOTHING[0],
    *(
        Case(workers, flavour, split, optimizer)
        for workers, flavour, split, optimizer in itertools.product(
            (3, 2, 1), ("keras", "tf_keras"), ("even", "uneven", "empty"), ("SGD", "Adam")
        )
        if workers > 1 or split == "uneven"  # one worker has all rows, and never runs dry
    ),
    FROM_NOTHING[1],
]


class Done(NamedTuple):
    """A case that has run."""

    config: JobConfig
    result: RunResult


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Case, Future[Done]]]:
    """The runs of all selected cases, under way."""
    base = tmp_path_factory.mktemp("exactness")
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    selected = {item.callspec.params["case"] for item in items}
    configs = {case: case.config(base) for case in CASES if case in selected}
    gangs: dict[str, SimpleQueue[LocalGang]] = {"on": SimpleQueue(), "off": SimpleQueue()}
    every: list[LocalGang] = []
    for nursery, count in (("on", GANGS), ("off", 1)):
        of_mode = [config for config in configs.values() if config.cluster.nursery == nursery]
        made = [LocalGang(of_mode[0], 3) for _ in range(count) if of_mode]
        for gang in made:
            gangs[nursery].put(gang)
        every += made

    def run(config: JobConfig) -> Done:
        of_mode = gangs[config.cluster.nursery]
        gang = of_mode.get()
        try:
            return Done(config, gang.train(config))
        finally:
            of_mode.put(gang)

    with ThreadPoolExecutor(GANGS) as pool:
        yield {case: pool.submit(run, config) for case, config in configs.items()}
        pool.shutdown(cancel_futures=True)
    for gang in every:
        gang.close()


LEFT_OUT = (FROM_NOTHING[0]._replace(nursery="on"), FROM_NOTHING[1])
"""How a trainer begins is no factor: one that begins from nothing is in the place of its twin."""


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
    logs = (Path(result.path) / "logs").iterdir()
    assert not [log for log in logs if "starts from nothing" in log.read_text()]

    alike = config.model_copy(update={"model": "trainer.zoo:everything"})
    found = elsewhere.submit(reference.compare_training, alike, updates, f"{result.model}/model.keras").result()
    assert found.difference <= TOLERANCE
    assert found.moved > 1000 * TOLERANCE
    clipped = np.array(found.norms) > config.params["global_clipnorm"]
    assert clipped.any()
    assert not clipped.all()
