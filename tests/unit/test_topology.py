"""TF_CONFIG and the cluster spec."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from sparktf.topology import ClusterSpec, NodeId, Role, tf_config


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
