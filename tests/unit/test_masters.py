"""What each kind of master is asked, and says."""

from __future__ import annotations

import os

import pytest

from sparktf.driver.spark.executors import Executor, find_executor
from sparktf.driver.spark.masters import Kubernetes, Local, LocalCluster, Master, Standalone, Yarn, master_of
from sparktf.submit.cluster_manager import manager_of

HERE = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("url", "kind", "executors", "cores"),
    [
        ("local", Local, 1, 1),
        ("local[*]", Local, 1, HERE),
        ("local[3]", Local, 1, 3),
        ("local[4, 2]", Local, 1, 4),
        ("local[4 ,2]", Local, 1, 4),
        ("local-cluster[2,3,1024]", LocalCluster, 2, 3),
        ("local-cluster[ 2 , 3 , 1024 ]", LocalCluster, 2, 3),
        ("spark://a:7077,b:7077", Standalone, None, 5),
        ("k8s://https://a:443", Kubernetes, None, 5),
        ("yarn", Yarn, None, 5),
        ("", Standalone, None, 5),
    ],
)
def test_an_address_says_which_master_it_is_and_what_slots_it_has(
    url: str, kind: type[Master], executors: int | None, cores: int
) -> None:
    slots = master_of(url).slots(5)
    assert slots.master == kind(url)
    assert (slots.executors, slots.cores) == (executors, cores)
    assert slots.total == (None if executors is None else executors * cores)


def test_what_is_on_this_machine_needs_no_network_and_is_not_asked_for_executors() -> None:
    for url in ("local[2]", "local-cluster[2,1,1024]"):
        assert master_of(url).one_machine
        assert not master_of(url).grants_executors
    assert not any(master_of(url).one_machine for url in ("yarn", "spark://a:1"))
    assert [url for url in ("local", "local-cluster[1,1,1]", "yarn") if master_of(url).runs_in_driver] == ["local"]


def test_people_are_told_of_yarns_queue_too() -> None:
    conf = {"spark.yarn.queue": "nightly"}
    assert [master_of(url).place(conf) for url in ("yarn", "local[2]")] == ["yarn, queue nightly", "local[2]"]
    assert master_of("yarn").place({}) == "yarn, queue default"
    assert master_of("k8s://a").place({"spark.kubernetes.namespace": "ml"}) == "k8s://a, namespace ml"


def test_an_executor_is_found_by_what_its_master_calls_its_container() -> None:
    there = [Executor(str(i), "h", f"http://h:8042/node/containerlogs/container_{i}/u/stderr", "", 0) for i in (1, 2)]
    assert find_executor(master_of("yarn"), there, "container_2") == there[1]
    assert find_executor(master_of("yarn"), there, "") is None
    assert find_executor(master_of("spark://a:1"), there, "container_2") is None
    assert find_executor(master_of("k8s://a"), there, "2") == there[1]
    assert find_executor(master_of("k8s://a"), there, "") is None


def test_a_submission_asks_what_has_become_of_its_application_where_somebody_knows() -> None:
    asked = [url for url in ("yarn", "local[2]", "spark://a:1", "k8s://a") if manager_of(master_of(url))]
    assert asked == ["yarn", "k8s://a"]


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("k8s://https://a:6443", "a:6443"),
        ("k8s://https://a", "a:443"),
        ("k8s://a:8443", "a:8443"),
        ("k8s://http://a", "a:80"),
        ("k8s://https://a:port", None),
        ("yarn", None),
    ],
)
def test_where_the_api_server_is_says_the_masters_address(url: str, entry: str | None) -> None:
    assert master_of(url).entry() == entry
