"""Whether a job's session is to know the tables of the Hive metastore."""

from __future__ import annotations

from typing import Any

import pytest

from sparktf.config.job import JobConfig
from sparktf.driver.spark.application import asks_for_tables

PATH, TABLE = {"path": "lake"}, {"table": "sales.orders"}


@pytest.mark.parametrize(
    ("data", "predict", "trains", "scores"),
    [
        (PATH, {"output": {"path": "scores"}}, False, False),
        (PATH, {"output": {"table": "scores"}}, False, True),
        (PATH, {"source": TABLE, "output": {"path": "scores"}}, False, True),
        (PATH, {"source": {"sql": "select 1"}, "output": {"path": "scores"}}, False, True),
        (TABLE, {"output": {"path": "scores"}}, True, True),
        (TABLE, {"source": PATH, "output": {"path": "scores"}}, True, False),
        ({"source": "feeds:rows"}, None, True, True),
    ],
)
def test_each_job_asks_for_the_tables_that_it_names(
    data: dict[str, Any], predict: dict[str, Any] | None, trains: bool, scores: bool
) -> None:
    section = {**data, "inputs": {"x": "x"}, "targets": {"y": "y"}}
    config = JobConfig.model_validate(
        {"name": "t", "model": "m:build", "output": {"path": "/runs"}, "data": section, "predict": predict}
    )
    assert (asks_for_tables(config, scores=False), asks_for_tables(config, scores=True)) == (trains, scores)
