"""What Spark says of executors that are gone: whose fault it was."""

from __future__ import annotations

import pytest

from sparktf.driver.spark.executors import is_taken_back, why_removed

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


KILLED = """[2026-11-28 15:06:31.285]Container killed on request. Exit code is 137
[2026-11-28 15:06:31.287]Container exited with a non-zero exit code 137.
[2026-11-28 15:06:31.287]Killed by external signal
"""
MISSING = """[2026-11-28 15:06:31.285]Exception from container-launch.
Exception message: Failed to start java: no such file.
[2026-11-28 15:06:31.287]Container exited with a non-zero exit code 1. Error file: prelaunch.err.
"""
BAD = "Container from a bad node: container_1410901929263_0001_01_000004 on host: host2.lake.test. Exit status:"
CAUSES = "Possible causes: Unknown executor exit code ({}) (died from signal 9?)"


@pytest.mark.parametrize("causes", ["", f" {CAUSES}"], ids=["3.5", "4.1"])
@pytest.mark.parametrize(
    ("code", "diagnostics", "told"),
    [
        (137, KILLED, "its container ended with exit status 137: Killed by external signal."),
        (
            1,
            MISSING,
            "its container ended with exit status 1: Exception from container-launch. Exception message: Failed to "
            "start java: no such file. Error file: prelaunch.err.",
        ),
        (50, "", "its container ended with exit status 50."),
    ],
    ids=["killed", "not started", "nothing"],
)
def test_the_end_of_a_container_is_told_in_a_line(causes: str, code: int, diagnostics: str, told: str) -> None:
    said = why_removed(f"{BAD} {code}.{causes.format(code)} Diagnostics: {diagnostics}.")
    assert (said, is_taken_back(said)) == (told, False)


# As Spark 3.5 tells of a pod, with what it does not know, and as Spark 4 does.
_OF_35 = """
The executor with id 3 exited with exit code {code}.
The API gave the following brief reason: {reason}
The API gave the following message: {message}
The API gave the following container statuses:


\t container name: spark-kubernetes-executor
\t container image: registry:5000/churn:7
\t container state: terminated
\t exit code: {code}
\t termination reason: {ended}
      """
_OF_4 = """
The executor with id 3 exited with exit code {code}(SIGKILL, possible container OOM).
{reason}{message}


The API gave the following container statuses:

\t container name: spark-kubernetes-executor
\t container state: terminated
\t exit code: {code}
\t termination reason: {ended}
      """


def of_pod(page: str, code: int, ended: str, reason: str = "", message: str = "") -> str:
    """Returns what Spark says of a pod's end."""
    if page is _OF_35:
        return page.format(code=code, ended=ended, reason=reason or "N/A", message=message or "N/A")
    brief = f"The API gave the following brief reason: {reason}\n" if reason else ""
    longer = f"The API gave the following message: {message}" if message else ""
    return page.format(code=code, ended=ended, reason=brief, message=longer)


LOW = "The node was low on resource: memory. Container spark-kubernetes-executor was using 5Gi, request is 3Gi."
GOING = "Pod was terminated in response to imminent node shutdown."
HINT = " In sparktf's configuration that is cluster.trainer_memory_mib."


@pytest.mark.parametrize("page", [_OF_35, _OF_4], ids=["3.5", "4"])
@pytest.mark.parametrize(
    ("pod", "told", "taken_back"),
    [
        ((137, "OOMKilled"), f"its pod ended with exit code 137: OOMKilled.{HINT}", False),
        ((1, "Error"), "its pod ended with exit code 1.", False),
        ((143, "Error"), "its pod ended with exit code 143.", True),
        ((137, "Error", "Evicted", LOW), f"its pod ended with exit code 137: Evicted: {LOW}{HINT}", False),
        ((143, "Error", "Terminated", GOING), f"its pod ended with exit code 143: Terminated: {GOING}", True),
    ],
    ids=["memory", "exit", "asked to end", "evicted", "shutdown"],
)
def test_what_spark_tells_of_a_pod_on_a_page_is_told_in_a_line(
    page: str, pod: tuple[int, str], told: str, taken_back: bool
) -> None:
    said = why_removed(of_pod(page, *pod))
    assert (said, is_taken_back(said)) == (told, taken_back)


@pytest.mark.parametrize(
    "reason",
    [
        "The executor with id 3 was deleted by a user or the framework.",
        "The executor with ID 3 was not found in the cluster but we didn't get a reason why. Marking the executor as "
        "failed. The executor may have been deleted but the driver missed the deletion event.",
        "The executor with ID 3 (registered at 17 ms) was not found in the cluster at the polling time (18 ms) which "
        "is after the accepted detect delta time (30000 ms) configured by "
        "`spark.kubernetes.executor.missingPodDetectDelta`.",
    ],
    ids=["told", "missed", "missed in Spark 4"],
)
def test_a_pod_that_was_deleted_had_done_nothing_wrong(reason: str) -> None:
    said = why_removed(reason)
    assert said == "its pod was deleted: its host was drained, other pods needed the room, or somebody deleted it."
    assert is_taken_back(said)
