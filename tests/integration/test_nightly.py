"""Nights in a row on real Spark: runs of several dates by one command, and data that is not there yet."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from integration.application import Application
from integration.rows import LINE, job, write_rows
from integration.sandbox import Sandbox

FIRST, SECOND = "2026-11-01", "2026-11-02"
ROWS = 64
HELD_OUT = 200


def night(lake: Path, date: str) -> None:
    """Writes the partition of a date, as a job does that marks its end."""
    (write_rows(lake / f"date={date}", [ROWS]) / "_SUCCESS").touch()


@pytest.mark.more(
    "cluster/test_yarn_eight_nights.py::test_two_nights_and_the_morning_after",
    "unit/test_backfill.py::test_a_date_that_fails_leaves_the_others_their_turn_and_its_exit_code_to_the_whole",
)
def test_a_backfill_runs_what_is_ready_and_goes_on_with_the_rest_when_it_has_come(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    night(lake, FIRST)
    config: dict[str, Any] = job(lake, sandbox.runs, "line:build", name="nights")
    config["data"] |= {
        "where": "date <= '{{date}}'",
        "ready": {"success": True, "window": {"folder": "date=%Y-%m-%d", "first": FIRST, "last": "{{date}}"}},
    }
    config["cluster"] = {"strategy": "single", "workers": 1}
    conf = sandbox.settings("local[1]", {})
    config["submit"] = {"master": conf.pop("spark.master"), "deploy_mode": "client", "conf": conf}
    (tmp_path / "line.py").write_text(LINE, encoding="utf-8")
    path = tmp_path / "nights.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")

    def backfill() -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "sparktf.commands.cli", "backfill", str(path), "--from", FIRST, "--to", SECOND],
            env=sandbox.environment(),
            cwd=sandbox.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    code, said = backfill()
    assert code == 6, said
    assert f"NotReadyError: data.path {lake} is not ready: date={SECOND} is missing (1 of 2 partitions)" in said
    assert [row.planned for row in sandbox.run(config, FIRST).result().rows] == [ROWS]
    night(lake, SECOND)
    code, said = backfill()
    assert code == 0, said
    assert "done before" in said
    assert [row.planned for row in sandbox.run(config, SECOND).result().rows] == [2 * ROWS]


def test_a_night_of_noisy_labels_changes_nothing_for_readers(local: Application, rows: Path, tmp_path: Path) -> None:
    noisy = tmp_path / "noisy"
    noisy.mkdir()
    for i, path in enumerate(sorted(rows.glob("*.parquet"))):
        table = pq.read_table(path)
        mixed = np.random.default_rng(i).permutation(table["y"].to_numpy())
        labels = np.where(table["id"].to_numpy() <= HELD_OUT, table["y"].to_numpy(), mixed)
        pq.write_table(table.set_column(3, "y", pa.array(labels)), noisy / path.name)
    config = job(
        rows,
        local.sandbox.runs,
        "cases.watched:build",
        name="gated",
        train={"epochs": 1},
        publish={},
        gate={"metrics": {"loss": {"tolerance": 0.01}}},
    )
    config["data"] |= {"mode": "spark", "validation": {"where": f"id <= {HELD_OUT}"}}
    current = local.sandbox.runs / "gated/serving/CURRENT"

    first = local.train(config, "2026-11-01").done
    assert first.extra["published"] == 1

    # Spark feeds the held-out rows once more for the gate: the best weights may be those of an earlier epoch.
    config["train"] |= {"epochs": 3, "keep": "best"}
    worse = local.train({**config, "data": {**config["data"], "path": str(noisy)}}, "2026-11-02")
    assert (worse.error, worse.verdict) == ("GatedError", 5)
    assert "the gate keeps version 1: loss is worse" in worse.message
    shown = re.sub(r"[ │]+", " ", worse.output)
    assert re.search(r" loss 200 [\d.]+ [\d.]+ -[\d.]+ to -[\d.]+ 0\.0100 worse", shown), worse.output
    assert worse.failed.comparison is not None
    (difference,) = worse.failed.comparison.differences
    assert (difference.rows, difference.finding) == (HELD_OUT, "worse")
    assert difference.champion == first.comparison.differences[0].challenger  # type: ignore[union-attr]
    assert difference.challenger > difference.champion  # type: ignore[operator]
    assert current.read_text(encoding="utf-8") == "1\n"
