"""What Spark says of executors that are gone: whose fault it was."""

from __future__ import annotations

import pytest

from sparktf.driver.spark.executors import is_taken_back

ON = "Container container_e17_1410901929263_0001_01_000003 on host: host1.lake.test"


@pytest.mark.parametrize(
    "reason",
    [
        f"{ON} was preempted.",
        "Container container_1410901929263_0001_01_000003 was preempted.",
        "Executor decommission: spark scale down",
        "Executor decommission: worker lost",
    ],
)
def test_the_cluster_took_it_back(reason: str) -> None:
    assert is_taken_back(reason)


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "it was removed",
        "Command exited with code 137",
        "Container marked as failed: container_1. Exit status: -100. Diagnostics: Container released on a *lost* node.",
        f"{ON} exited from explicit termination request.",
        "Container killed by YARN for exceeding physical memory limits. The job named preempted uses 5 GB.",
        f"{ON} failed: a file was preempted. Executor decommission: none",
        "Executor heartbeat timed out after 160000 ms",
    ],
)
def test_it_was_lost(reason: str) -> None:
    assert not is_taken_back(reason)
