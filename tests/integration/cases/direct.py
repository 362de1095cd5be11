"""What trainers read of a table by the plan of a run, without a run: in the process that has the connectors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from sparktf import JobConfig
from sparktf.driver.plan.locality import nowhere
from sparktf.driver.plan.plan import Plan
from sparktf.driver.source.choice import choose_feed
from sparktf.driver.source.origin import Origin
from sparktf.driver.spark.application import file_systems_of
from sparktf.errors import SparkTFError
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage


def fed(spark: SparkSession, config: dict[str, Any]) -> DataFrame:
    """Returns a row: the version in the plan, what is said of who reads (or the error), and the rows by `id`: JSON."""
    job, said = JobConfig.model_validate(config), list[str]()
    try:
        plan = choose_feed(spark, job, Origin(spark, job), file_systems_of(spark), nowhere, said.append)
    except SparkTFError as error:
        return _row(spark, None, f"{type(error).__name__}: {error}", "[]")
    rows = [] if plan.staged else _rows(plan)
    return _row(spark, plan.source_version, "\n".join(said), json.dumps(rows))


def _row(spark: SparkSession, version: int | None, said: str, rows: str) -> DataFrame:
    return spark.createDataFrame([(version, said, rows)], "version long, said string, rows string")


def _rows(plan: Plan) -> list[list[Any]]:
    (share,) = plan.assignments(Stream.TRAIN, 0, [(0, plan.rows(Stream.TRAIN))], [""], rebalance=True)
    found: list[list[Any]] = []
    with NodeFeed(plan.spec, PlannedParts(plan.spec, share, open_storage)) as feed:
        while feed.rows_taken < share.rows:
            columns = feed.next_rows(64)
            arrays = [np.asarray(columns[key]).tolist() for key in sorted(columns)]
            found += [list(row) for row in zip(*arrays, strict=True)]
    return sorted(found)
