"""Nights in a row on real Spark: runs of several dates by one command, and data that is not there yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from integration.rows import LINE, job, write_rows
from integration.sandbox import Sandbox

FIRST, SECOND = "2026-11-01", "2026-11-02"
ROWS = 64


def night(lake: Path, date: str) -> None:
    """Writes the partition of a date, as a job does that marks its end."""
    (write_rows(lake / f"date={date}", [ROWS]) / "_SUCCESS").touch()


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
            [sys.executable, "-m", "sparktf.cli", "backfill", str(path), "--from", FIRST, "--to", SECOND],
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
