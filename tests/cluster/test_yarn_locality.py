"""Executors beside the blocks, and each worker reading its own: measured at the hosts' cables, and reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.click_run import ClickRun
from cluster.clicks import ROWS, click_job, put_clicks

from minihadoop import MiniHadoop
from sparktf.driver.result import RunResult

EPOCHS = 8


@pytest.fixture(scope="module")
def clicks(shared_cluster: MiniHadoop) -> str:
    with shared_cluster.inside():
        put_clicks(shared_cluster, "/lake/clicks")
    return "/lake/clicks"


class Measured:
    """A run, and what went over the cables of the hosts meanwhile."""

    def __init__(self, hadoop: MiniHadoop, folder: Path, job: dict[str, Any], run_id: str) -> None:
        hosts = [host.name for host in hadoop.config.workers]
        before = {host: hadoop.link_bytes(host) for host in hosts}
        with ClickRun(hadoop, folder, job, run_id=run_id) as run:
            assert run.wait() == 0, run.output()
        self.output = run.output()
        self.sent = sum((hadoop.link_bytes(host) - before[host]).sent for host in hosts)
        self.result: RunResult = run.result(run_id)

    @property
    def nbytes(self) -> int:
        """Bytes that the report says were read."""
        return sum(node.nbytes for attempt in self.result.attempts for node in attempt.nodes)

    @property
    def local(self) -> float:
        """Share of them that the report says lay on the reader's own host."""
        local = sum(node.local_nbytes or 0 for attempt in self.result.attempts for node in attempt.nodes)
        return local / self.nbytes


@pytest.fixture
def local_run(hadoop: MiniHadoop, clicks: str, tmp_path: Path) -> Iterator[Measured]:
    yield Measured(hadoop, tmp_path / "local", click_job(clicks, "/runs", train={"epochs": EPOCHS}), "local")


def test_nine_of_ten_bytes_are_read_on_their_own_host(
    hadoop: MiniHadoop, clicks: str, local_run: Measured, tmp_path: Path
) -> None:
    assert local_run.result.rows_trained == EPOCHS * ROWS
    assert local_run.nbytes > 60e6 * EPOCHS
    assert local_run.local >= 0.9
    assert local_run.sent <= 0.1 * local_run.nbytes
    assert "on the reader's own host" in local_run.output
    control = click_job(
        clicks, "/runs", data={"locality": False}, cluster={"placement": "any"}, train={"epochs": EPOCHS}
    )
    chance = Measured(hadoop, tmp_path / "chance", control, "chance")
    remote = (1 - chance.local) * chance.nbytes
    assert 0.25 < chance.local < 0.75
    assert remote * 0.9 < chance.sent < remote * 1.2 + 40e6
