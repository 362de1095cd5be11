"""TF_CONFIG and the cluster spec."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from sparktf.topology import ClusterSpec, GangShape, NodeId, Role, gang_text, tf_config


def test_a_worker_sees_all_workers_and_its_own_task() -> None:
    cluster = ClusterSpec(worker=("a:1", "b:2"))

    config = json.loads(tf_config(cluster, NodeId(role=Role.WORKER, index=1)))

    assert config == {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}


def test_an_evaluator_names_itself_but_is_in_nobodys_cluster() -> None:
    cluster = ClusterSpec(chief=("c:0",), worker=("a:1",), ps=("p:2",))

    config = json.loads(tf_config(cluster, NodeId(role=Role.EVALUATOR, index=0)))

    assert config["task"] == {"type": "evaluator", "index": 0}
    assert "evaluator" not in config["cluster"]


def test_a_node_that_is_not_in_the_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="worker 2 is not in the cluster spec"):
        tf_config(ClusterSpec(worker=("a:1", "b:2")), NodeId(role=Role.WORKER, index=2))


def test_two_nodes_cannot_share_an_address() -> None:
    with pytest.raises(ValidationError, match="two nodes share an address"):
        ClusterSpec(worker=("a:1", "a:1"))


def named(shape: GangShape, count: int) -> list[str]:
    return [str(node) for node in shape.members(count)]


def test_a_smaller_gang_has_the_least_of_each_role_and_then_more_in_their_order() -> None:
    least = {Role.CHIEF: 1, Role.WORKER: 1, Role.PS: 1}
    shape = GangShape({Role.CHIEF: 1, Role.WORKER: 3, Role.PS: 2}, least)

    assert (shape.nodes, shape.fewest) == (6, 3)
    assert named(shape, 3) == ["chief 0", "worker 0", "ps 0"]
    assert named(shape, 4) == ["chief 0", "worker 0", "worker 1", "ps 0"]
    assert named(shape, 6) == ["chief 0", "worker 0", "worker 1", "worker 2", "ps 0", "ps 1"]
    for count in (2, 7):
        with pytest.raises(ValueError, match=f"{count} nodes: the gang has 3 to 6"):
            shape.members(count)


def test_a_gang_with_servers_is_led_by_its_coordinator_and_can_do_with_fewer_workers_alone() -> None:
    shape = GangShape.with_servers(workers=3, ps=2, least=1)

    assert (shape.nodes, shape.fewest) == (6, 4)
    assert named(shape, 4) == ["chief 0", "ps 0", "ps 1", "worker 0"]
    assert gang_text(shape.members(4)) == "1 worker, 2 ps and a coordinator"
    assert gang_text(shape.members(6)) == "3 workers, 2 ps and a coordinator"
    assert gang_text(GangShape.of_workers(2, least=1).members(2)) == "2 workers"


@pytest.mark.parametrize("role", [Role.CHIEF, Role.PS, Role.WORKER])
def test_every_role_of_a_gang_with_servers_finds_itself_among_all(role: Role) -> None:
    cluster = ClusterSpec(chief=("c:0",), worker=("a:1",), ps=("p:2",))

    config = json.loads(tf_config(cluster, NodeId(role=role, index=0)))

    assert config["task"] == {"type": role.value, "index": 0}
    assert config["cluster"] == {"chief": ["c:0"], "worker": ["a:1"], "ps": ["p:2"]}


def test_a_node_that_moves_takes_its_address_also_from_one_that_is_gone() -> None:
    cluster = ClusterSpec(chief=("c:0",), worker=("a:1", "b:1"), ps=("p:2",))
    one, other = (NodeId(role=Role.WORKER, index=i) for i in range(2))

    assert cluster.moved(other, "d:5") == ClusterSpec(chief=("c:0",), worker=("a:1", "d:5"), ps=("p:2",))
    assert cluster.moved(other, "b:1") == cluster
    gone = cluster.moved(one, "b:1")
    assert gone.worker == ("b:1", "worker-1.invalid:1")
    assert gone.moved(other, "e:1").worker == ("b:1", "e:1")


def test_a_gang_may_ask_for_fewer_workers_than_the_least() -> None:
    assert named(GangShape.of_workers(1, least=2), 1) == ["worker 0"]


def test_nodes_at_their_addresses_are_a_cluster_that_the_chief_leads_or_the_first_worker() -> None:
    evaluator, chief = NodeId(role=Role.EVALUATOR, index=0), NodeId(role=Role.CHIEF, index=0)
    workers = {NodeId(role=Role.WORKER, index=i): f"w:{i}" for i in (1, 0)}

    sync, led = ClusterSpec.at(workers), ClusterSpec.at({evaluator: "e:1", **workers, chief: "c:1"})

    assert (sync.worker, sync.leader) == (("w:0", "w:1"), NodeId(role=Role.WORKER, index=0))
    assert (led, led.leader) == (ClusterSpec(chief=("c:1",), worker=("w:0", "w:1")), chief)
