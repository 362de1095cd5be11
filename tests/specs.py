"""What trainers are given, for tests."""

from __future__ import annotations

from typing import Any

from lakes import lake_config

from sparktf.feature import FeedSpec
from sparktf.topology import ClusterSpec, NodeId, Role
from sparktf.wire.trainer_spec import Training


def trainer_spec(**fields: Any) -> Training:
    """Returns that of the only worker of a first attempt, but for the fields that are given."""
    usual: dict[str, Any] = {
        "run_id": "r",
        "run_root": "/o",
        "attempt": 1,
        "node": NodeId(role=Role.WORKER, index=0),
        "cluster": ClusterSpec(worker=("h:1",)),
        "config": lake_config(),
        "feed": FeedSpec(features=()),
        "rows": {},
        "assets": {},
    }
    return Training(**usual | fields)
