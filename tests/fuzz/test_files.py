"""Parquet files: each row exactly once in each epoch, with the values that the docs promise; or one clear refusal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fuzz.cases import NewFolder, cases
from fuzz.lake_cases import LakeCase, lake_cases
from fuzz.reading import check_values, ids_of, read_share, resumed
from lakes import deal, no_filter

from sparktf.config.job import JobConfig
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import plan_source
from sparktf.errors import BadValueError, EmptySourceError
from sparktf.storage.file_systems import open_storage


def plan_of(case: LakeCase, folder: Path) -> Plan:
    config = {"name": "t", "model": "m:build", "output": {"path": "/nowhere"}, "train": {"seed": case.seed}}
    job = JobConfig.model_validate({**config, "data": {"path": str(folder), **case.config()}})
    return plan_source(job, open_storage, no_filter)


@cases(lake_cases())
def test_every_row_comes_once_with_its_values_or_is_refused_with_its_place(
    case: LakeCase, new_folder: NewFolder
) -> None:
    folder = new_folder()
    case.write(folder)
    if not case.rows:
        with pytest.raises(EmptySourceError):
            plan_of(case, folder)
        return
    wanted = {row["id"]: case.tensors(row) for row in case.rows}
    bad = {i for i, tensors in wanted.items() if tensors.bad}
    plan = plan_of(case, folder)
    run = case.run
    limit = len(bad) if run.sets_aside else 0
    if bad and not limit:
        with pytest.raises(BadValueError) as refusal:
            for share in deal(plan, nodes=run.nodes, rebalance=run.rebalance):
                read_share(plan, share, run.batch_rows, 0)
        check_place(str(refusal.value), case, {i: wanted[i].bad for i in bad})
        return
    good = sorted(wanted.keys() - bad)
    for epoch in run.epochs:
        shares = deal(plan, epoch=epoch, nodes=run.nodes, rebalance=run.rebalance)
        reads = [read_share(plan, share, run.batch_rows, limit) for share in shares]
        batches = [batch for read in reads for batch in read.batches]
        assert sorted(ids_of(batches)) == good
        assert case.data["shuffle"] or not run.rebalance or ids_of(batches) == good
        assert sum(read.aside for read in reads) == len(bad)
        assert {id_of(row.origin, row.row, case) for read in reads for row in read.bad} == bad
        check_values(batches, case.takes, wanted)
    again = resumed(plan, 1, (run.nodes, run.nodes_after), run.stop_after, run.batch_rows, run.rebalance, limit)
    assert sorted(ids_of(again.batches)) == good
    assert again.aside == len(bad)


def id_of(path: str, row: int, case: LakeCase) -> int:
    """Returns the id of a row of a file."""
    number = int(Path(path).stem)
    return sum(shape.rows for shape in case.files[:number]) + row


def check_place(message: str, case: LakeCase, bad: dict[int, set[str]]) -> None:
    """Checks that a refusal names a row that is to be refused, and why."""
    found = re.match(r"(?P<path>.*\.parquet): column '(?P<column>.*?)', row (?P<row>\d+): ", message)
    assert found is not None, message
    assert found["column"] in bad[id_of(found["path"], int(found["row"]), case)], message
