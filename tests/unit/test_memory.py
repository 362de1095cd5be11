"""The memory of containers on YARN, and of pods."""

from __future__ import annotations

import pytest

from sparktf.config.nodes import ClusterConfig, NodeMemory
from sparktf.driver.spark.masters import master_of
from sparktf.driver.spark.yarn_memory import (
    PYTHON_DRIVER_MIB,
    PYTHON_WORKER_MIB,
    Container,
    check_fits,
    check_overhead,
    driver_container,
    executor_container,
    parse_mib,
    settled,
)
from sparktf.errors import ConfigError, PreflightError

TRAINER = NodeMemory(2048)
LOWER = "cluster.trainer_memory_mib or submit.executor_memory_mib"


def test_an_executor_holds_its_heap_and_beside_it_sparks_share_the_python_worker_and_the_trainer() -> None:
    assert executor_container(1024, TRAINER) == Container("executor", 1024, 384 + PYTHON_WORKER_MIB + 2048, LOWER)
    assert executor_container(8192, TRAINER).overhead_mib == 819 + PYTHON_WORKER_MIB + 2048
    assert executor_container(1024, TRAINER, cores=3).overhead_mib == 384 + 3 * PYTHON_WORKER_MIB + 2048


def test_a_driver_in_a_container_has_a_python_process_too() -> None:
    assert driver_container(1024) == Container("driver", 1024, 384 + PYTHON_DRIVER_MIB, "submit.driver_memory_mib")


@pytest.mark.parametrize(
    ("mib", "step_mib", "allocated_mib"), [(1000, 128, 1024), (1024, 128, 1024), (1025, 1024, 2048)]
)
def test_yarn_rounds_up_to_its_step(mib: int, step_mib: int, allocated_mib: int) -> None:
    assert Container("executor", mib, 0, LOWER).allocated_mib(step_mib) == allocated_mib


def test_what_the_user_sets_in_spark_counts() -> None:
    asked = Container("executor", 1024, 2688, LOWER)
    assert settled(asked, {}) == asked
    assert settled(asked, {"spark.executor.memory": "2g", "spark.driver.memory": "9g"}).heap_mib == 2048
    assert settled(asked, {"spark.executor.memoryOverhead": "4096"}).overhead_mib == 4096


def test_a_container_larger_than_the_largest_is_refused_with_what_to_lower() -> None:
    check_fits(Container("executor", 1024, 3072, LOWER), 4096, "YARN")
    with pytest.raises(
        PreflightError,
        match=r"^the executor needs 4,097 MiB \(1,024 heap \+ 3,073 overhead\), but YARN's queue q gives a container "
        r"at most 4,096 MiB: lower cluster.trainer_memory_mib or submit.executor_memory_mib, or raise "
        r"yarn.scheduler.maximum-allocation-mb$",
    ):
        check_fits(Container("executor", 1024, 3073, LOWER), 4096, "YARN's queue q")
    with pytest.raises(PreflightError, match=r"^the driver needs .*: lower submit.driver_memory_mib, or"):
        check_fits(driver_container(4096), 4096, "YARN")


def test_an_overhead_that_cannot_hold_a_trainer_is_refused_with_one_that_can() -> None:
    with pytest.raises(
        PreflightError, match=r"memoryOverhead is 384 MiB: use --conf spark.executor.memoryOverhead=2688m$"
    ):
        check_overhead({}, TRAINER)
    with pytest.raises(PreflightError, match=r"is 1,024 MiB: use --conf spark.executor.memoryOverhead=3123m$"):
        check_overhead({"spark.executor.memory": "8g", "spark.executor.memoryOverhead": "1g"}, TRAINER)
    check_overhead({"spark.executor.memoryOverhead": "2688m"}, TRAINER)


def test_executors_of_one_size_hold_the_largest_role_which_is_named_where_it_does_not_fit() -> None:
    large = ClusterConfig(strategy="parameter_server", ps=1, ps_memory_mib=4096).node_memory
    small = ClusterConfig(strategy="parameter_server", ps=1, ps_memory_mib=1024).node_memory
    same = ClusterConfig(strategy="parameter_server", ps=1).node_memory
    assert (large.mib, small, same) == (4096, TRAINER, TRAINER)
    with pytest.raises(
        PreflightError, match=r"^a parameter server needs cluster\.ps_memory_mib: 4,096 MiB outside the"
    ):
        check_overhead({"spark.executor.memoryOverhead": "2688m"}, large)
    with pytest.raises(PreflightError, match=r": lower cluster\.ps_memory_mib or submit\.executor_memory_mib, or"):
        check_fits(executor_container(1024, large), 4096, "YARN")


def test_sparks_own_ways_to_ask_for_overhead_are_understood() -> None:
    check_overhead({"spark.executor.memory": "8g", "spark.executor.memoryOverheadFactor": "0.4"}, TRAINER)
    check_overhead({"spark.executor.minMemoryOverhead": "2g"}, TRAINER)


def test_a_pods_overhead_is_also_kubernetes_own_share_of_the_heap() -> None:
    pods = master_of("k8s://https://api")
    pods.check_memory({"spark.executor.memory": "8g", "spark.kubernetes.memoryOverheadFactor": "0.4"}, TRAINER)
    with pytest.raises(PreflightError, match=r"use --conf spark\.executor\.memoryOverhead="):
        pods.check_memory({"spark.executor.memory": "8g"}, TRAINER)
    narrow = {"spark.executor.memoryOverheadFactor": "0.1", "spark.kubernetes.memoryOverheadFactor": "0.4"}
    with pytest.raises(PreflightError, match=r"memoryOverhead is 819 MiB"):
        pods.check_memory({"spark.executor.memory": "8g", **narrow}, TRAINER)


@pytest.mark.parametrize(
    ("text", "mib"), [("512", 512), ("512m", 512), ("512MB", 512), ("2g", 2048), ("1T", 1048576), ("2048k", 2)]
)
def test_sizes_are_read_as_spark_reads_them(text: str, mib: int) -> None:
    assert parse_mib(text, "key") == mib


@pytest.mark.parametrize("text", ["", "much", "1.5g", "g"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^spark.executor.memory=.*: not a size such as 512m or 2g"):
        parse_mib(text, "spark.executor.memory")
