"""How a `train(node)` may end: what counts as done, and what is the model's failure."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trainer import lake
from trainer.local_gang import LocalGang

from sparktf.config.job import JobConfig
from sparktf.errors import BadValueError, CorruptFileError, ModelError, Verdict


def leaving(folder: Path, how: str, workers: int = 2) -> JobConfig:
    """Returns the configuration of a loop that ends in one of several ways: see `zoo.leaves`."""
    lake.write(folder / "lake", [200, 200])
    train = {"batch_size": 64, "epochs": 4}
    return lake.job(folder, "leaves", workers=workers, params={"how": how}, data=lake.NUMBERS_TO_LABEL, train=train)


@pytest.mark.parametrize(
    ("how", "steps", "rows"),
    [("after an epoch", 14, [(0, 400, True), (1, 400, True)]), ("inside an epoch", 3, [(0, 192, False)])],
)
def test_a_loop_that_leaves_its_epochs_early_is_done(
    how: str, steps: int, rows: list[tuple[int, int, bool]], tmp_path: Path, gang: LocalGang
) -> None:
    result = gang.train(leaving(tmp_path, how))
    assert result.verdict is Verdict.DONE
    assert [(r.epoch, r.trained, r.complete) for r in result.rows] == rows
    assert result.steps == steps
    assert Path(result.checkpoint).name == f"step-{steps:012}"
    assert Path(result.model, "model.keras").is_file()


@pytest.mark.parametrize(
    ("how", "workers", "reason"),
    [
        ("before restore", 1, r"returned without calling node\.restore"),
        ("before epochs", 1, r"returned without looping over node\.epochs\(\)"),
        ("before a report", 1, r"returned in epoch 0 without reporting a row: call node\.report"),
        (
            "batches left",
            2,
            r"reported 32 of the 200 rows of its share of epoch 0 before it went on: train and report",
        ),
    ],
)
def test_a_function_that_does_not_train_what_it_should_is_the_models_failure(
    how: str, workers: int, reason: str, tmp_path: Path, gang: LocalGang
) -> None:
    with pytest.raises(ModelError, match=rf"train\(node\) {reason}") as failure:
        gang.train(leaving(tmp_path, how, workers))
    assert failure.value.result.verdict is Verdict.MODEL_FAILED
    assert len(failure.value.result.attempts) == 1


def test_a_row_that_a_hand_written_loop_meets_is_refused_as_data(tmp_path: Path, gang: LocalGang) -> None:
    config = leaving(tmp_path, "in the end")
    file = tmp_path / "lake" / "part-000.parquet"
    table = pq.read_table(file)
    pq.write_table(table.set_column(table.column_names.index("x0"), "x0", pa.nulls(len(table), pa.float32())), file)
    with pytest.raises(BadValueError, match=r"part-000\.parquet") as failure:
        gang.train(config)
    assert failure.value.result.verdict is Verdict.DATA_REFUSED
    assert len(failure.value.result.attempts) == 1


def test_a_lake_that_is_rewritten_with_equal_shapes_between_two_epochs_ends_the_run(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [200, 200])
    config = lake.job(
        tmp_path,
        "rewrites",
        params={"lake": str(tmp_path / "lake")},
        data=lake.NUMBERS_TO_LABEL,
        train={"batch_size": 64, "epochs": 3},
    )
    with pytest.raises(CorruptFileError, match=r"part-00\d\.parquet.*changed") as failure:
        gang.train(config)
    result = failure.value.result
    assert (result.verdict, len(result.attempts)) == (Verdict.DATA_REFUSED, 1)
    assert [(rows.epoch, rows.trained, rows.complete) for rows in result.rows] == [(0, 400, True)]
