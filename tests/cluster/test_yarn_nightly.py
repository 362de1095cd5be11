"""A night on YARN: data on HDFS that comes late is waited for, and hardly anything is held meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster.click_run import ClickRun, plan_clicks
from cluster.clicks import GROUPS_PER_FILE, ROWS_PER_GROUP, click_file, click_job
from cluster.containers import containers_of

from minihadoop import MiniHadoop

LAKE = "/lake/nights"
DATES, NEXT = ("2026-11-19", "2026-11-20"), "2026-11-21"


@pytest.mark.timeout(600)
def test_a_partition_that_comes_late_is_waited_for_before_executors_are_asked_for(
    hadoop: MiniHadoop, tmp_path: Path
) -> None:
    def put(number: int) -> None:
        folder = f"{LAKE}/date={DATES[number]}"
        hadoop.hdfs.put(f"{folder}/part-0.parquet", click_file(number))
        hadoop.hdfs.put(f"{folder}/_SUCCESS", b"")

    put(0)

    def job(last: str) -> dict[str, Any]:
        return click_job(
            LAKE,
            "/runs",
            name="late",
            data={
                "ready": {
                    "window": {"folder": "date=%Y-%m-%d", "first": DATES[0], "last": last},
                    "success": True,
                    "min_rows": 2 * GROUPS_PER_FILE * ROWS_PER_GROUP,
                    "wait": "5m",
                }
            },
            cluster={"workers": 2, "trainer_memory_mib": 1024, "placement": "any"},
            train={"batch_size": 16_384},
        )

    with ClickRun(hadoop, tmp_path, job(DATES[1]), run_id=DATES[1]) as run:
        run.wait_for_line(
            r"^the data is not ready, which is waited for up to 5 min: date=2026-11-20 is missing \(1 of 2"
        )
        held = {process.info["environ"]["CONTAINER_ID"] for process in containers_of(run.application().id)}
        assert len(held) <= 2, "YARN's master, and the one executor that Spark starts with"
        put(1)
        assert run.wait() == 0, run.output()
    result = run.result(DATES[1])
    (rows,) = result.rows
    assert rows.planned == rows.trained == 2 * GROUPS_PER_FILE * ROWS_PER_GROUP

    # The next night's run would wait, too, and the rows that are there already be as many updates as they were.
    said = plan_clicks(hadoop, tmp_path / "plan", job(NEXT), NEXT)
    assert (said.exit_code, [problem.type for problem in said.problems]) == (6, ["NotReadyError"])
    assert said.data.missing == f"date={NEXT} is missing (1 of 3 partitions)"
    assert said.updates is not None
    assert (said.updates.total, said.updates.exact) == (result.steps, True)
    assert said.locality is not None
    assert (said.locality.share, said.locality.asked) == (None, ())
