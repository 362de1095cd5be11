"""What is told of TensorFlow's words about a lost peer; the texts are its own."""

from __future__ import annotations

import pytest

from sparktf.topology import ClusterSpec
from sparktf.trainer.node.failure import said_of_peers

CLUSTER = ClusterSpec(worker=("10.0.0.1:4000", "10.0.0.2:4001"))

GRAPH = """Graph execution error:

Detected at node while/CollectiveReduceV2 defined at (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main

  File "/venv/sparktf/trainer/sync/step.py", line 61, in _run_updates

{}
The error could be from a previous operation. Restart your program to reset.
\t [[{{{{node while/CollectiveReduceV2}}}}]] [Op:__inference__run_updates_655]"""

FROZEN = """Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy \
(stopped sending heartbeats):
/job:worker/replica:0/task:1
The tasks have crashed. Check the task logs for an earlier error, or scheduler events (e.g. preemption, eviction) to \
debug further."""

MUTE = """Collective ops is aborted by: Deadline Exceeded

RPC: /tensorflow.CoordinationService/Heartbeat"""

CLOSED = """Collective ops is aborted by: Socket closed
Additional GRPC error information from remote target /job:worker/replica:0/task:1 while calling \
/tensorflow.WorkerService/RecvBuf:
:UNKNOWN:Error received from peer {{grpc_status:14, grpc_message:"Socket closed"}}"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            GRAPH.format(FROZEN),
            "The following tasks are unhealthy (stopped sending heartbeats): worker 1 at 10.0.0.2:4001",
        ),
        (GRAPH.format(MUTE), "Deadline Exceeded (RPC: /tensorflow.CoordinationService/Heartbeat)"),
        (
            GRAPH.format(CLOSED),
            "Socket closed (Additional GRPC error information from remote target worker 1 at 10.0.0.2:4001 while "
            "calling /tensorflow.WorkerService/RecvBuf)",
        ),
        ("2 root error(s) found.\n  (0) UNAVAILABLE:  Connection reset by peer", "Connection reset by peer"),
        ("/job:ps/replica:0/task:7 is gone", "/job:ps/replica:0/task:7 is gone"),
        ("", ""),
    ],
    ids=["frozen", "mute", "closed", "plain", "a task that is no node of ours", "nothing"],
)
def test_the_node_that_tensorflow_means_is_named(text: str, said: str) -> None:
    assert said_of_peers(text, CLUSTER) == said
