"""GPUs: how many a node gets by Spark's settings, what is refused, and what a trainer is to see."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparktf.config.load import parse_config
from sparktf.config.nodes import ClusterConfig
from sparktf.driver.spark.gpus import OF_EXECUTOR, OF_TASK, SCRIPT, VENDOR, Gpus, check_gpus, gpus_of
from sparktf.driver.spark.masters import master_of
from sparktf.errors import PreflightError
from sparktf.executor.agent import gpus_of_task
from sparktf.executor.forking import sees_gpu, wants_nursery
from sparktf.executor.trainer_process import trainer_environment

CONFIG = """\
name: churn
model: churn:build
data: {path: /lake, inputs: {age: age}, targets: {churned: churned}}
output: {path: /runs}
"""


def settings(executor: str = "", task: str = "") -> dict[str, str]:
    return {key: value for key, value in ((OF_EXECUTOR, executor), (OF_TASK, task)) if value}


@pytest.mark.parametrize(
    ("executor", "task", "of_node", "nodes"),
    [("4", "1", 1, 4), ("4", "2", 2, 2), ("4", "", 4, 1), ("1", "1", 1, 1), ("3", "2", 2, 1)],
)
def test_a_node_gets_what_a_task_gets_or_all_of_its_executor(
    executor: str, task: str, of_node: int, nodes: int
) -> None:
    gpus = gpus_of(settings(executor, task))
    assert gpus is not None
    assert (gpus.of_node, gpus.nodes_of_executor) == (of_node, nodes)


def test_an_application_without_gpus_has_none() -> None:
    assert gpus_of({}) is None
    assert gpus_of(settings("0")) is None
    assert gpus_of(settings("2", "0")) == Gpus(2, None)


@pytest.mark.parametrize(
    ("executor", "task", "cluster", "executors", "is_fed", "said"),
    [
        ("", "1", {}, None, False, "but the executors have no GPUs: set spark.executor.resource.gpu.amount, and"),
        ("2", "4", {}, None, False, "gpu.amount=4, but an executor has 2"),
        ("2", "0.5", {}, None, False, "would have trainers share a GPU: set a whole number, or leave it out"),
        ("many", "", {}, None, False, "gpu.amount=many: not a number of GPUs"),
        (
            "2",
            "",
            {},
            None,
            False,
            "cluster.devices: 1, but a node would have 2 GPUs: set cluster.devices: 2, or spark.task",
        ),
        ("2", "2", {"strategy": "mirrored", "devices": 4}, None, False, "cluster.devices: 4, but a node has 2 GPUs"),
        ("1", "1", {"workers": 3}, 2, False, "need 3 GPUs, 1 each, but 2 executors have 1 each"),
        ("2", "1", {}, None, True, "its tasks would wait for GPUs that the nodes hold: leave out spark.task"),
        ("1", "", {"engine": "tensorflowonspark"}, None, False, "asks for no GPUs by itself: set spark.task"),
    ],
)
def test_gpus_that_nodes_would_not_get_are_refused(
    executor: str, task: str, cluster: dict[str, Any], executors: int | None, is_fed: bool, said: str
) -> None:
    with pytest.raises(PreflightError) as refused:
        check_gpus(settings(executor, task), ClusterConfig(**cluster), executors, is_fed=is_fed)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("executor", "task", "cluster", "executors", "is_fed"),
    [
        ("", "", {}, 1, True),
        ("2", "1", {}, 1, False),
        ("1", "", {}, 2, True),
        ("4", "", {"strategy": "mirrored", "devices": 4}, 1, True),
        ("1", "", {"strategy": "parameter_server", "ps": 1}, None, True),
    ],
)
def test_gpus_that_nodes_get_are_not_refused(
    executor: str, task: str, cluster: dict[str, Any], executors: int | None, is_fed: bool
) -> None:
    check_gpus(settings(executor, task), ClusterConfig(**cluster), executors, is_fed=is_fed)


ON_PODS = {VENDOR: "nvidia.com", SCRIPT: "/opt/gpus.sh"}


@pytest.mark.parametrize(
    ("master", "given", "said"),
    [
        ("k8s://https://api", {}, f"1, but without {VENDOR} Spark makes no pods: set it to the domain of the device"),
        ("k8s://https://api", {VENDOR: "nvidia.com"}, f"1, but without {SCRIPT} executors do not find their GPUs"),
        ("yarn", {}, f"1, but without {SCRIPT} executors do not find their GPUs, and end: set it to a script"),
    ],
)
def test_gpus_that_no_executor_would_come_with_are_refused_before_and_after_submission(
    master: str, given: dict[str, str], said: str
) -> None:
    conf = {**settings("1"), **given}
    with pytest.raises(PreflightError, match=re.escape(said)):
        master_of(master).check_gpus(parse_config(CONFIG, [f"submit.conf={conf}"]))
    with pytest.raises(PreflightError, match=re.escape(said)):
        check_gpus(conf, ClusterConfig(), 2, needs=master_of(master).gpus_need)


@pytest.mark.parametrize(
    ("master", "given"),
    [
        ("k8s://https://api", ON_PODS),
        ("k8s://https://api", {VENDOR: "amd.com", "spark.resources.discoveryPlugin": "ours.Plugin"}),
        ("yarn", {SCRIPT: "/opt/gpus.sh"}),
        ("spark://a:7077", {}),
        ("local-cluster[2,1,1024]", {}),
    ],
)
def test_gpus_that_executors_come_with_are_not_refused(master: str, given: dict[str, str]) -> None:
    conf = {**settings("1"), **given}
    master_of(master).check_gpus(parse_config(CONFIG, [f"submit.conf={conf}"]))


@pytest.mark.parametrize(
    ("resources", "deals", "gpus"),
    [
        ({"gpu": SimpleNamespace(addresses=["6", "7"])}, True, ("6", "7")),
        ({"gpu": SimpleNamespace(addresses=["6"])}, False, ("6",)),
        ({}, True, ()),
        ({}, False, None),
    ],
)
def test_a_task_without_gpus_has_none_where_the_application_has_some(
    resources: dict[str, Any], deals: bool, gpus: tuple[str, ...] | None
) -> None:
    agent: Any = SimpleNamespace(deals_gpus=deals)
    assert gpus_of_task(resources, agent) == gpus


def test_a_trainer_sees_the_gpus_of_its_task_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert trainer_environment(tmp_path, ("6", "7"))["CUDA_VISIBLE_DEVICES"] == "6,7"
    assert trainer_environment(tmp_path, ())["CUDA_VISIBLE_DEVICES"] == ""
    assert trainer_environment(tmp_path)["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    assert trainer_environment(tmp_path)["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "false")
    assert trainer_environment(tmp_path)["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"


def test_trainers_with_gpus_are_not_forked() -> None:
    assert sees_gpu(("6",))
    assert not sees_gpu(())
    assert not wants_nursery("auto", ("6",))
    assert wants_nursery("auto", ())
    assert wants_nursery("on", ("6",))


def test_dynamic_allocation_wants_the_gpus_of_a_task() -> None:
    dynamic, cluster = {"spark.dynamicAllocation.enabled": "true"}, ClusterConfig(strategy="single", workers=1)
    with pytest.raises(PreflightError, match=f"{OF_TASK}=2"):
        check_gpus({**settings("2"), **dynamic}, cluster)
    check_gpus({**settings("1", "1"), **dynamic}, cluster)
