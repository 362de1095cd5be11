"""A stream of customers, a partition each day: what tells today who leaves is not what did last week."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 12_000
"""Of a day."""

COUNTRIES = ("at", "be", "ch", "de", "es", "fr", "gb", "nl")
NEW_COUNTRY = "pl"
DAY_0 = dt.date(2026, 11, 1)

_TURN = np.radians(15)
"""By so much the direction in which customers leave turns from day to day."""


def date_of(day: int) -> str:
    """Returns the date of a day; partitions begin with day 0."""
    return str(DAY_0 + dt.timedelta(days=day))


def customers(day: int, *, corrupt: bool = False, noise: bool = False) -> bytes:
    """Returns a day's Parquet file, the same each time; from day 6 on there is another country, and a column `tenure`.

    Args:
        corrupt: Usage is given in other units than it should be.
        noise: Most labels say the opposite.
    """
    draw = np.random.default_rng(day)
    calls, complaints = draw.normal(size=(2, ROWS))
    names = (*COUNTRIES, NEW_COUNTRY) if day >= 6 else COUNTRIES
    country = draw.integers(len(names), size=ROWS)
    tenure = draw.normal(size=ROWS)
    logit = 2.5 * (np.cos(day * _TURN) * calls + np.sin(day * _TURN) * complaints) + np.linspace(-1, 1, 9)[country]
    if day >= 6:
        logit += tenure
    churned = draw.random(ROWS) < 1 / (1 + np.exp(-logit))
    wrong = draw.random(ROWS) < (0.8 if noise else 0)
    columns: dict[str, Any] = {
        "calls": (calls * (60 if corrupt else 1)).astype(np.float32),
        "complaints": complaints.astype(np.float32),
        "country": pa.array(np.array(names)[country]),
        "churned": (churned ^ wrong).astype(np.float32),
    }
    if day >= 6:
        columns["tenure"] = tenure.astype(np.float32)
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=ROWS // 4)
    return sink.getvalue()


def churn_job(lake: str, runs: str, **sections: Any) -> dict[str, Any]:
    """Returns the configuration of a night: it learns from yesterday's customers, and is measured by today's."""
    job: dict[str, Any] = {
        "name": "churn",
        "model": "churn_model:build",
        "params": {"learning_rate": 0.02},
        "data": {
            "path": lake,
            "where": "date >= '{{date-1}}' AND date <= '{{date}}'",
            "inputs": {"usage": ["calls", "complaints"], "country": "country"},
            "targets": {"churned": "churned"},
            "validation": {"where": "date = '{{date}}'"},
            "ready": {
                "window": {"folder": "date=%Y-%m-%d", "first": "{{date-1}}", "last": "{{date}}"},
                "success": True,
                "min_rows": 2 * ROWS,
                "wait": "5m",
            },
            "checks": {
                "refuse": {"columns": {"calls": {"min": -10, "max": 10}}},
                "warn": {"drift": {"columns": True, "label": 0.2}},
            },
        },
        "cluster": {"workers": 1, "trainer_memory_mib": 1024, "placement": "any"},
        "train": {"epochs": 2, "batch_size": 256, "init_from": "published"},
        "gate": {"metrics": {"auc": {"tolerance": 0.005}}, "slices": ["country"]},
        "publish": {},
        "timeouts": {"owner": 10},
        "output": {"path": runs, "history": True, "report": True, "progress_seconds": 1},
    }
    for name, section in sections.items():
        job[name] = {**job.get(name, {}), **section} if isinstance(section, dict) else section
    return job
