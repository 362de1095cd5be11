"""What a real run trains, measures, saves and exports, beyond the exactness matrix."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from split import only
from trainer import lake, reference
from trainer.local_gang import LocalGang, LocalSite, updates_of, worker_rows
from trainer.results import accounts, steps_saved

from sparktf.config.job import JobConfig
from sparktf.errors import ModelError, NodeLostError, Verdict
from sparktf.results.result import RunResult
from sparktf.sequence import Cursor

FLAVOURS = ("keras", "tf_keras")
TOLERANCE = 1e-5


def everything(folder: Path, rows: int, *, flavour: str = "keras", **sections: Any) -> JobConfig:
    """Returns the configuration of the model of the matrix."""
    params = {"flavour": flavour, "rows": rows, "learning_rate": 0.2, "global_clipnorm": 0.6}
    return lake.job(folder, "everything", params=params, data=lake.EVERYTHING, **sections)


def weights_differ(elsewhere: ProcessPoolExecutor, config: JobConfig, result: RunResult, updates: Any) -> float:
    """Returns the greatest difference from one plain Keras process that makes these updates."""
    exported = f"{result.model}/model.keras"
    return elsewhere.submit(reference.compare_training, config, updates, exported).result().difference


@pytest.fixture(scope="module", autouse=True)
def hanging(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Future[NodeLostError] | None]:
    """The failure of a run whose start hangs, under way beside the other tests on a gang of its own."""
    selected = (item.originalname for item in request.session.items if isinstance(item, pytest.Function))
    if test_a_start_that_hangs_ends_with_where_it_stands.__name__ not in selected:
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(failure_of_a_start_that_hangs, tmp_path_factory.mktemp("hanging"))


def failure_of_a_start_that_hangs(folder: Path) -> NodeLostError:
    lake.write(folder / "lake", [40])
    config = lake.job(
        folder, "never_built", data=lake.NUMBERS_TO_LABEL, train={"max_attempts": 1}, timeouts={"start": 16}
    )
    gang = LocalGang(config, 1)
    try:
        with pytest.raises(NodeLostError) as failure:
            gang.train(config)
    finally:
        gang.close()
    return failure.value


GANGS = {
    "two workers": {"strategy": "multi_worker_mirrored", "workers": 2},
    "two devices": {"strategy": "mirrored", "devices": 2},
    "two devices of two workers": {"strategy": "multi_worker_mirrored", "workers": 2, "devices": 2},
    "by tensorflow": {"strategy": "multi_worker_mirrored", "workers": 2, "collectives": "tensorflow"},
}


@pytest.mark.parametrize(("flavour", "cluster"), only(("keras", "two workers"), of=list(product(FLAVOURS, GANGS))))
def test_the_history_of_an_epoch_has_the_metrics_of_keras_and_classes_weigh_what_they_weigh_in_its_fit(
    flavour: str, cluster: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    """In the second epoch: in the first one a callback of Keras's has set the learning rate to 0, on all workers."""
    lake.write(tmp_path / "lake", [300, 37])
    config = lake.job(
        tmp_path,
        "weighed",
        cluster=GANGS[cluster],
        params={"flavour": flavour},
        data={**lake.NUMBERS_TO_LABEL, "inputs": {"numbers": lake.NUMBERS, "row": "row"}, "rebalance": False},
        train={
            "batch_size": 64,
            "epochs": 2,
            "class_weight": {0: 4.0, 2: 0.5},
            "callbacks": "trainer.heard:scheduled",
        },
    )
    result = gang.train(config)
    updates = updates_of(config, Cursor(epoch=1))
    expected, difference = elsewhere.submit(reference.fitted, config, updates, f"{result.model}/model.keras").result()
    assert result.metrics["train"] == pytest.approx({**expected, "learning_rate": 0.2}, abs=1e-5)
    assert difference <= TOLERANCE


OF_DEVICES = [name for name in GANGS if "devices" in name]


@pytest.mark.parametrize(
    ("flavour", "cluster"), only(("keras", "two devices of two workers"), of=list(product(FLAVOURS, OF_DEVICES)))
)
def test_devices_of_a_node_train_as_one(
    flavour: str, cluster: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [321])  # the last update has one row, so that other devices run dry
    config = everything(tmp_path, 321, flavour=flavour, cluster=GANGS[cluster], train={"batch_size": 64})
    result = gang.train(config)
    updates = updates_of(config)
    assert len(updates[-1]) == 1
    assert accounts(result) == [(321, 321, 321, True)]
    assert weights_differ(elsewhere, config, result, updates) <= TOLERANCE


@pytest.mark.parametrize(
    ("flavour", "collectives"),
    only(("tf_keras", "auto"), ("keras", "tensorflow"), of=[*product(FLAVOURS, ("auto", "tensorflow"))]),
)
def test_validation_metrics_are_those_of_one_process(
    flavour: str, collectives: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [100])
    lake.write(tmp_path / "held-out", [150, 1, 40], seed=7)
    config = lake.job(
        tmp_path,
        "metered",
        workers=2,
        params={"flavour": flavour},
        data={**lake.METERED, "validation": {"path": str(tmp_path / "held-out")}},
        train={"batch_size": 32, "validation_batch_size": 40},
        cluster={"collectives": collectives},
    )
    result = gang.train(config)
    expected = elsewhere.submit(
        reference.evaluate, config, str(tmp_path / "held-out"), f"{result.model}/model.keras"
    ).result()
    assert {"loss", "label_loss", "click_loss", "label_accuracy", "click_auc", "click_mse"} <= set(expected)
    assert result.metrics["validation"] == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.more(
    "trainer/test_exactness.py::test_weights_are_those_of_one_process",
    "trainer/test_training.py::test_checkpoints_by_time_are_saved_by_all_workers_alike",
)
def test_updates_in_one_call_or_each_in_its_own_give_the_same_weights(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    exported = []
    for steps_per_call in (1, 32):
        train = {"batch_size": 32, "steps_per_call": steps_per_call, "epochs": 2}
        config = everything(tmp_path, 400, name=f"by-{steps_per_call}", workers=2, train=train)
        exported.append(f"{gang.train(config).model}/model.keras")
    assert elsewhere.submit(reference.compare_models, config, *exported).result() <= 1e-6


def test_max_steps_ends_inside_an_epoch_and_checkpoints_by_steps_hold_the_rows_of_their_updates(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    config = everything(
        tmp_path,
        400,
        workers=2,
        train={"batch_size": 64, "max_steps": 11, "epochs": 3},
        checkpoint={"every_steps": 3, "every_seconds": None, "keep": 10},
    )
    result = gang.train(config)
    assert result.steps == 11
    assert accounts(result) == [(400, 400, 400, True), (400, 256, 256, False)]
    inputs = [node.input for node in result.attempts[0].nodes]
    assert sum(read.rows["direct"] for read in inputs) == 656
    assert all(0 <= read.wait_s < read.seconds and read.nbytes for read in inputs)
    # An epoch has seven updates, the last of 16 rows.
    assert {step: (cursor.epoch, cursor.rows) for step, cursor in steps_saved(result).items()} == {
        3: (0, 192),
        6: (0, 384),
        7: (1, 0),
        9: (1, 128),
        11: (1, 256),
    }
    updates = updates_of(config) + updates_of(config, Cursor(epoch=1))[:4]
    assert weights_differ(elsewhere, config, result, updates) <= TOLERANCE


def test_checkpoints_by_time_are_saved_by_all_workers_alike(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    config = everything(
        tmp_path,
        400,
        workers=2,
        train={"batch_size": 64, "steps_per_call": 1},
        checkpoint={"every_seconds": 0.001, "keep": 10},
    )
    result = gang.train(config)
    cursors = steps_saved(result)
    rows = {step: 400 * cursor.epoch + cursor.rows for step, cursor in cursors.items()}
    assert rows == {step: min(64 * step, 400) for step in range(8)}
    assert weights_differ(elsewhere, config, result, updates_of(config)) <= TOLERANCE


@pytest.mark.more(
    "trainer/test_bad_rows.py::test_a_run_resumed_inside_an_epoch_counts_each_of_them_once",
    "trainer/test_training.py::test_a_low_level_loop_resumes_with_every_row_trained_once",
)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_run_resumed_inside_an_epoch_on_more_workers_goes_on_exactly(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [200, 100, 60, 40])
    adam = {"flavour": flavour, "rows": 400, "optimizer": "Adam", "learning_rate": 0.005}
    data = {**lake.EVERYTHING, "shuffle_rows": 1}

    first = lake.job(
        tmp_path, "everything", workers=2, params=adam, data=data, train={"batch_size": 64, "max_steps": 3}
    )
    stopped = gang.train(first)
    cursor = steps_saved(stopped)[3]
    assert (cursor.epoch, cursor.rows) == (0, 192)
    Path(stopped.path, "result.json").unlink()  # as if the driver had been killed before its end

    second = lake.job(tmp_path, "everything", workers=3, params=adam, data=data, train={"batch_size": 64})
    result = gang.train(second)
    updates = updates_of(first)[:3] + updates_of(second, cursor)
    assert sorted(row for update in updates for row in update) == list(range(400))
    assert result.attempts[0].from_step == 3
    assert result.steps == len(updates)
    assert accounts(result) == [(400, 400, 400, True)]
    assert weights_differ(elsewhere, second, result, updates) <= TOLERANCE


def read_diary(folder: Path, workers: int) -> Iterator[tuple[int, int]]:
    """Yields step and row of all that `zoo.loop` has trained on with so many workers."""
    for path in folder.glob(f"{workers}-*"):
        for line in path.read_text().splitlines():
            step, *rows = map(int, line.split())
            yield from ((step, row) for row in rows)


def test_a_low_level_loop_resumes_with_every_row_trained_once(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [200, 100, 60, 40])
    (tmp_path / "diary").mkdir()
    params = {"flavour": "keras", "diary": str(tmp_path / "diary")}
    data = {
        "inputs": {"numbers": lake.NUMBERS, "row": "row"},
        "targets": {"label": "label"},
        "shuffle_rows": 1,
        "rebalance": False,
    }

    def job(workers: int, **more: Any) -> JobConfig:
        return lake.job(
            tmp_path,
            "loop",
            workers=workers,
            params={**params, **more},
            data=data,
            train={"batch_size": 64, "epochs": 2},
            checkpoint={"every_steps": 2, "every_seconds": None},
            publish={},
        )

    with pytest.raises(ModelError, match=r"broken on purpose \(zoo\.py:\d+ in loop: raise RuntimeError\(") as failure:
        gang.train(job(2, break_after=5))
    assert failure.value.result.verdict is Verdict.MODEL_FAILED
    assert len(failure.value.result.attempts) == 1  # the model's own failure is not tried again

    ports = tmp_path / "ports"
    ports.mkdir()
    result = gang.train(job(3, ports=str(ports)))
    assert sorted((path.name, path.read_text()) for path in ports.iterdir()) == [
        ("3-0", "1"),
        ("3-1", "1"),
        ("3-2", "1"),
    ]
    kept = [row for step, row in read_diary(tmp_path / "diary", 2) if step <= result.attempts[0].from_step]
    assert 0 < len(kept) < 400
    later = sorted(read_diary(tmp_path / "diary", 3))
    both = sorted(kept + [row for _, row in later])
    assert both == sorted([*range(400), *range(400)])
    assert accounts(result) == [(400, 400, 400, True)] * 2
    assert result.steps == later[-1][0]
    shapes, difference = elsewhere.submit(reference.compare_exports, job(3), result.model).result()
    assert list(shapes.values()) == [[400, lake.CLASSES]]
    assert difference <= 1e-6
    assert Path(result.model, "predictions.npz").exists(), "as of every model that readers are to see"


@pytest.mark.parametrize(
    ("flavour", "collectives", "devices"),
    only(
        ("keras", "auto", 1),
        of=list(product(FLAVOURS, ("auto", "tensorflow"), (1,))) + list(product(FLAVOURS, ["auto"], [2])),
    ),
)
def test_batch_norm_trains_beside_a_worker_that_runs_dry_and_has_the_mean_of_their_statistics(
    flavour: str, collectives: str, devices: int, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    table = lake.write(tmp_path / "lake", [200, 40])
    config = lake.job(
        tmp_path,
        "normalised",
        workers=2,
        params={"flavour": flavour},
        data={**lake.NUMBERS_TO_LABEL, "shuffle_rows": 1, "rebalance": False, "validation": {"fraction": 0.2}},
        train={"batch_size": 32},
        cluster={"collectives": collectives, "devices": devices},
    )
    result = gang.train(config)
    assert accounts(result) == [(192, 192, 192, True)]
    assert np.isfinite(result.metrics["validation"]["loss"])
    numbers = {number: row for row, number in enumerate(table.column("x0").to_pylist())}
    shares = [[numbers[float(x)] for x in share["input:numbers"][:, 0]] for share in worker_rows(config)]
    updates = [
        [part for share in shares for part in parts_of(share[start : start + 16], devices)]
        for start in range(0, max(map(len, shares)), 16)
    ]
    assert not all(all(update) for update in updates)
    # Over TensorFlow's collectives, Keras 3 reads those of one replica: docs/use/exactness.md.
    averaged = (flavour, collectives) != ("keras", "tensorflow")
    difference, apart = elsewhere.submit(
        reference.compare_replicas, config, updates, f"{result.model}/model.keras", averaged=averaged
    ).result()
    assert difference <= TOLERANCE
    assert apart > 1000 * TOLERANCE


def parts_of(rows: list[int], devices: int) -> list[list[int]]:
    """Returns the rows of each device of a node."""
    ends = [len(rows) * end // devices for end in range(devices + 1)]
    return [rows[start:stop] for start, stop in pairwise(ends)]


@pytest.mark.parametrize("flavour", only("keras", of=FLAVOURS))
def test_batch_norm_in_one_process_is_that_of_keras(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [100])
    data = {**lake.NUMBERS_TO_LABEL, "sample_weight": "weight", "shuffle": False}
    config = lake.job(tmp_path, "normalised", params={"flavour": flavour}, data=data, train={"batch_size": 32})
    result = gang.train(config)
    updates = [list(range(start, min(start + 32, 100))) for start in range(0, 100, 32)]
    assert weights_differ(elsewhere, config, result, updates) <= TOLERANCE


@pytest.mark.parametrize("flavour", only("keras", of=FLAVOURS))
def test_text_is_looked_up_in_a_vocabulary_of_the_assets_also_when_served_and_validated_beside_a_worker_without_rows(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang, "assets", {"colours": ["red", "green"]})
    lake.write(tmp_path / "lake", [100, 30])
    lake.write(tmp_path / "held-out", [1])
    config = lake.job(
        tmp_path,
        "text",
        workers=2,
        params={"flavour": flavour},
        data={
            "inputs": {"colour": "colour", "numbers": lake.NUMBERS},
            "targets": {"label": "label"},
            "validation": {"path": str(tmp_path / "held-out")},
        },
        train={"batch_size": 32},
    )
    result = gang.train(config)
    assert accounts(result) == [(130, 130, 130, True)]
    assert result.metrics["validation"]["accuracy"] in (0.0, 1.0)
    assert json.loads(Path(result.model, "assets.json").read_text()) == {"colours": ["red", "green"]}
    shapes, difference = elsewhere.submit(reference.compare_exports, config, result.model).result()
    assert list(shapes.values()) == [[130, lake.CLASSES]]
    assert difference <= 1e-6


@pytest.mark.more(
    "trainer/test_asynchronous.py::test_a_run_goes_on_exactly_under_another_strategy_and_on_other_numbers_of_nodes",
    "trainer/test_aggregated.py"
    "::test_a_stuck_worker_costs_the_others_nothing_where_an_update_takes_fewer_and_nor_does_a_lost_one",
)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_several_inputs_and_outputs_are_served_by_name(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [70])
    config = everything(tmp_path, 70, flavour=flavour, train={"batch_size": 32})
    result = gang.train(config)
    shapes, difference = elsewhere.submit(reference.compare_exports, config, result.model).result()
    assert shapes == {"price": [70, 1], "label": [70, lake.CLASSES]}
    assert difference <= 1e-6


@pytest.mark.parametrize("flavour", only("tf_keras", of=FLAVOURS))
def test_a_subclassed_model_with_an_unused_weight_trains_and_is_served(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [100, 30])
    config = lake.job(
        tmp_path,
        "subclassed",
        workers=2,
        params={"flavour": flavour},
        data={**lake.NUMBERS_TO_LABEL, "shuffle_rows": 1, "rebalance": False},
        train={"batch_size": 32},
    )
    result = gang.train(config)
    assert accounts(result) == [(130, 130, 130, True)]
    outputs = elsewhere.submit(reference.serve, config, result.model).result()
    assert [output.shape for output in outputs.values()] == [(130, lake.CLASSES)]


@pytest.mark.parametrize("strategy", ["single", "multi_worker_mirrored"])
def test_a_node_alone_opens_no_port_that_others_could_reach(tmp_path: Path, gang: LocalGang, strategy: str) -> None:
    lake.write(tmp_path / "lake", [64])
    for folder in ("diary", "ports"):
        (tmp_path / folder).mkdir()
    config = lake.job(
        tmp_path,
        "loop",
        params={"flavour": "keras", "diary": str(tmp_path / "diary"), "ports": str(tmp_path / "ports")},
        data={"inputs": {"numbers": lake.NUMBERS, "row": "row"}, "targets": {"label": "label"}},
        cluster={"strategy": strategy, "workers": 1},
        train={"batch_size": 64},
    )
    assert accounts(gang.train(config)) == [(64, 64, 64, True)]
    assert (tmp_path / "ports/1-0").read_text() == "0"


# Forked by a nursery, those of all tests on Spark say so if they find it: cases/watched.py. Those that begin from
# nothing are looked at in a gang whose weights are compared.
@pytest.mark.more("trainer/test_exactness.py::test_weights_are_those_of_one_process")
@pytest.mark.parametrize(("nursery", "begun"), [("on", "sparktf.trainer.nursery"), ("off", "sparktf.trainer.__main__")])
def test_a_trainer_never_imports_spark_however_it_begins(nursery: str, begun: str, tmp_path: Path) -> None:
    lake.write(tmp_path / "lake", [100])
    config = lake.job(
        tmp_path,
        "without_spark",
        workers=2,
        params={"flavour": "keras", "rows": 100, "begun": begun},
        data=lake.EVERYTHING,
        cluster={"nursery": nursery},
    )
    gang = LocalGang(config, 2, LocalSite(2, imports=True))
    try:
        assert accounts(gang.train(config)) == [(100, 100, 100, True)]
    finally:
        gang.close()


def test_a_start_that_hangs_ends_with_where_it_stands(hanging: Future[NodeLostError]) -> None:
    failure = hanging.result()
    assert re.search(r"worker 0 on .* was not ready within timeouts\.start: 16 s", str(failure))
    error = failure.result.error
    assert "zoo.py" in error.log_tail
    assert "in never_built" in error.log_tail
    assert "in never_built" in Path(error.log).read_text()
