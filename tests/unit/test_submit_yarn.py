"""What is known of YARN before a submission: its addresses, its queues, and what it would refuse."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from sparktf.config.job import JobConfig
from sparktf.config.load import parse_config
from sparktf.errors import ConfigError, PreflightError, ReservationError
from sparktf.knobs import KNOBS
from sparktf.submit.resource_managers import ResourceManagers, read_resource_managers, resource_managers
from sparktf.submit.yarn import (
    Queue,
    ResourceManagerApi,
    YarnHost,
    check_submission,
    parse_queues,
    wait_for_resource_manager,
)

CAPACITY = {
    "type": "capacityScheduler",
    "queueName": "root",
    "queuePath": "root",
    "autoCreationEligibility": "off",
    "queues": {
        "queue": [
            {"queueName": "default", "queuePath": "root.default", "maximumAllocation": {"memory": 4096, "vCores": 4}},
            {
                "queueName": "ml",
                "queuePath": "root.ml",
                "maximumAllocation": {"memory": 65536},
                "queues": {"queue": [{"queueName": "night", "queuePath": "root.ml.night"}]},
            },
        ]
    },
}
FAIR = {
    "type": "fairScheduler",
    "rootQueue": {"queueName": "root", "childQueues": {"queue": [{"queueName": "root.a"}]}},
}
NOWHERE = ResourceManagers((), (), None)


def config(*overrides: str) -> JobConfig:
    text = "name: n\nmodel: m:build\ndata: {path: p, inputs: {x: x}, targets: {y: y}}\noutput: {path: runs}"
    return parse_config(text, overrides)


def test_queues_that_take_applications_are_found_with_their_largest_container() -> None:
    queues = parse_queues(CAPACITY)
    assert queues.queues == (Queue("root.default", 4096), Queue("root.ml.night", None))
    assert queues.complete
    assert queues.find("night") == queues.find("root.ml.night") == Queue("root.ml.night", None)
    assert queues.find("ml") is None


@pytest.mark.parametrize("scheduler", [FAIR, {**CAPACITY, "autoCreationEligibility": "flexible"}])
def test_a_scheduler_that_makes_queues_has_more_than_it_lists(scheduler: dict[str, Any]) -> None:
    queues = parse_queues(scheduler)
    assert not queues.complete
    check_submission(config("submit.queue=mine"), NOWHERE, queues)


def test_an_unknown_queue_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"^submit.queue: nigt does not exist in YARN: name one of default, night$"):
        check_submission(config("submit.queue=nigt"), NOWHERE, parse_queues(CAPACITY))


def test_placement_rules_may_send_the_default_elsewhere() -> None:
    only = {**CAPACITY, "queues": {"queue": [{"queueName": "etl", "queuePath": "root.etl"}]}}
    check_submission(config(), NOWHERE, parse_queues(only))


def test_memory_is_held_against_the_queue_else_against_yarn_site() -> None:
    large = config("cluster.trainer_memory_mib=4096")
    with pytest.raises(PreflightError, match=r"the executor needs 5,760 MiB .* YARN's queue default .* 4,096 MiB"):
        check_submission(large, ResourceManagers((), (), 99_999), parse_queues(CAPACITY))
    with pytest.raises(PreflightError, match=r"YARN \(yarn-site.xml\) gives a container at most 5,000 MiB"):
        check_submission(large, ResourceManagers((), (), 5_000), None)
    check_submission(large, NOWHERE, None)


def test_one_resource_manager_is_found_by_its_host_name() -> None:
    assert resource_managers({"yarn.resourcemanager.hostname": "rm"}) == ResourceManagers(
        ("rm:8032",), ("http://rm:8088",), None
    )


def test_several_resource_managers_are_found_by_their_ids() -> None:
    found = resource_managers(
        {
            "yarn.resourcemanager.ha.enabled": "true",
            "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
            "yarn.resourcemanager.hostname.rm1": "a",
            "yarn.resourcemanager.address.rm2": "b:9032",
            "yarn.resourcemanager.webapp.https.address.rm2": "b:9090",
            "yarn.http.policy": "HTTPS_ONLY",
            "yarn.scheduler.maximum-allocation-mb": "8192",
        }
    )
    assert found == ResourceManagers(("a:8032", "b:9032"), ("https://a:8090", "https://b:9090"), 8192)


def test_the_files_of_a_configuration_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.hostname</name><value> rm </value></property>"
        "</configuration>",
        encoding="utf-8",
    )
    assert read_resource_managers(tmp_path).rpc == ("rm:8032",)


def test_no_configuration_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match=r"^submit.master: yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR"):
        read_resource_managers(None)
    with pytest.raises(ConfigError, match="does not exist: name the folder"):
        read_resource_managers(tmp_path / "nowhere")
    (tmp_path / "yarn-site.xml").write_text("<configuration>", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"yarn-site.xml cannot be read as a Hadoop configuration"):
        read_resource_managers(tmp_path)


def test_a_resource_manager_that_is_down_is_waited_for_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOBS, "resource_manager_retry_s", 0.01)
    with socket.socket() as later:
        later.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{later.getsockname()[1]}"
        down = ResourceManagers((address,), (), None)
        left: list[float] = []
        with pytest.raises(ReservationError) as caught:
            wait_for_resource_manager(down, left.append, within_s=0.05)
        told = f"YARN's ResourceManager cannot be reached at {address} (Connection refused): "
        assert str(caught.value) == f"{told}is it up, and is that the address in yarn-site.xml?"
        assert 0.05 >= left[0] > left[-1] > 0

        wait_for_resource_manager(down, lambda _: later.listen(), within_s=30)


def test_any_one_of_several_resource_managers_will_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as active:
        there = f"127.0.0.1:{active.getsockname()[1]}"
        waited: list[float] = []
        wait_for_resource_manager(ResourceManagers(("127.0.0.1:1", there), (), None), waited.append, within_s=0)
    assert not waited


def test_hosts_that_are_at_work_are_listed_with_what_is_left_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {"nodeHostName": "b", "state": "RUNNING", "usedMemoryMB": 3072, "availMemoryMB": 1024}
    idle = {"nodeHostName": "a", "state": "RUNNING", "availMemoryMB": 4096, "availableVirtualCores": 8}
    answers: dict[str, Any] = {"nodes": {"nodes": {"node": [busy, idle, {**idle, "state": "LOST"}]}}}
    monkeypatch.setattr(ResourceManagerApi, "_get", lambda api, path: answers.get(path))
    api = ResourceManagerApi(NOWHERE)
    assert api.nodes() == (YarnHost("a", 4096, 4096, 8, 8), YarnHost("b", 4096, 1024, 0, 0))
    answers["nodes"] = {"nodes": None}
    assert api.nodes() == ()
    del answers["nodes"]
    assert api.nodes() is None
