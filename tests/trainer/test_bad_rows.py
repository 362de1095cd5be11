"""Rows that fail a check, set aside: the others are trained on exactly once, and the books say so."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trainer import lake, reference
from trainer.local_gang import LocalGang, updates_of

from sparktf.config.job import JobConfig
from sparktf.errors import BadValueError, Verdict
from sparktf.results.result import RunResult
from sparktf.sequence import Cursor

SIZES = (130, 90, 110, 70)
ROWS = sum(SIZES)
NULLS = (0, 7, 131, 140, 222, 250, 331, 399)
NANS = (20, 300)
BAD = {*NULLS, *NANS}


def write_rows(folder: Path) -> None:
    """Writes four files of one row group each; some rows have a null input, some a NaN target."""
    table = lake.rows(ROWS)
    x0, price = (table.column(name).to_numpy().copy() for name in ("x0", "price"))
    price[list(NANS)] = np.nan
    mask = np.isin(np.arange(ROWS), NULLS)
    table = table.set_column(table.column_names.index("x0"), "x0", pa.array(x0, mask=mask))
    table = table.set_column(table.column_names.index("price"), "price", pa.array(price))
    folder.mkdir()
    for i, size in enumerate(SIZES):
        pq.write_table(table.slice(sum(SIZES[:i]), size), folder / f"part-{i}.parquet")


def job(folder: Path, workers: int, limit: int, **train: Any) -> JobConfig:
    params = {"flavour": "keras", "rows": ROWS, "optimizer": "Adam", "learning_rate": 0.005}
    data = {**lake.EVERYTHING, "max_bad_rows": limit, "shuffle_rows": 1}
    return lake.job(folder, "everything", workers=workers, params=params, data=data, train={"batch_size": 64, **train})


def listed(result: RunResult) -> dict[int, tuple[str, str]]:
    """Returns column and reason of each row in the run's files."""
    lines = [line for path in Path(result.path, "bad_rows").iterdir() for line in path.read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    first = {f"part-{i}.parquet": sum(SIZES[:i]) for i in range(len(SIZES))}
    return {first[Path(f["origin"]).name] + f["row"]: (f["column"], f["reason"].partition(";")[0]) for f in found}


@pytest.mark.more("trainer/test_bad_rows.py::test_a_run_resumed_inside_an_epoch_counts_each_of_them_once")
def test_all_other_rows_are_trained_on_exactly_once(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    write_rows(tmp_path / "lake")
    config = job(tmp_path, 2, len(BAD))
    result = gang.train(config)
    (epoch,) = result.rows
    assert (epoch.planned, epoch.fed, epoch.trained, epoch.set_aside) == (ROWS, ROWS, ROWS - len(BAD), len(BAD))
    assert epoch.complete
    updates = updates_of(config)
    assert sorted(row for update in updates for row in update) == sorted(set(range(ROWS)) - BAD)
    exported = f"{result.model}/model.keras"
    assert elsewhere.submit(reference.compare_training, config, updates, exported).result().difference <= 1e-5
    expected = dict.fromkeys(NULLS, ("x0", "null")) | dict.fromkeys(NANS, ("price", "nan cannot be a target"))
    assert listed(result) == expected
    assert any(f"{len(BAD)} rows" in warning for warning in result.warnings)


def test_a_run_resumed_inside_an_epoch_counts_each_of_them_once(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    write_rows(tmp_path / "lake")
    first = job(tmp_path, 2, len(BAD), max_steps=3)
    stopped = gang.train(first)
    (manifest,) = Path(stopped.path, "checkpoints").glob("step-*3/MANIFEST.json")
    cursor = Cursor.model_validate(json.loads(manifest.read_text())["cursor"])
    aside = cursor.rows - 192
    assert 0 < aside < len(BAD)
    assert (stopped.rows[0].trained, stopped.rows[0].set_aside) == (192, aside)
    Path(stopped.path, "result.json").unlink()  # as if the driver had been killed before its end

    second = job(tmp_path, 1, len(BAD))
    result = gang.train(second)
    updates = updates_of(first)[:3] + updates_of(second, cursor)
    assert sorted(row for update in updates for row in update) == sorted(set(range(ROWS)) - BAD)
    assert (result.attempts[0].from_step, result.steps) == (3, len(updates))
    (epoch,) = result.rows
    assert (epoch.planned, epoch.fed, epoch.trained, epoch.set_aside) == (ROWS, ROWS, ROWS - len(BAD), len(BAD))
    assert epoch.complete
    expected = dict.fromkeys(NULLS, ("x0", "null")) | dict.fromkeys(NANS, ("price", "nan cannot be a target"))
    assert listed(result) == expected
    assert any(f"{len(BAD)} rows" in warning for warning in result.warnings)
    exported = f"{result.model}/model.keras"
    assert elsewhere.submit(reference.compare_training, second, updates, exported).result().difference <= 1e-5


def test_too_many_on_all_nodes_together_are_refused(tmp_path: Path, gang: LocalGang) -> None:
    write_rows(tmp_path / "lake")
    config = job(tmp_path, 2, len(BAD) - 1)  # which neither of the two exceeds
    says = r"10 rows fail a check, and data\.max_bad_rows is 9; bad_rows/ of the run lists them"
    with pytest.raises(BadValueError, match=says) as refusal:
        gang.train(config)
    assert refusal.value.result.verdict is Verdict.DATA_REFUSED
    assert len(listed(refusal.value.result)) == len(BAD)


def test_too_many_on_one_node_are_listed_before_the_run_ends(tmp_path: Path, gang: LocalGang) -> None:
    write_rows(tmp_path / "lake")
    with pytest.raises(BadValueError, match=r"2 rows fail a check, and data\.max_bad_rows is 1; one of them: .*part-"):
        gang.train(job(tmp_path, 1, 1))
    assert len(list((tmp_path / "runs/job/run/bad_rows").iterdir())) == 1
