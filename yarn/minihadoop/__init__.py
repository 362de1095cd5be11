"""A real Hadoop on one machine: HDFS and YARN daemons of their own JVMs, on hosts that are network namespaces."""

from minihadoop.cluster import MiniHadoop
from minihadoop.config import ClusterConfig
from minihadoop.errors import CommandError, MiniHadoopError, NotReadyError, RefusedError
from minihadoop.hdfs import BlockLocation, DataNodeState
from minihadoop.lifecycle import down, up
from minihadoop.network import LinkBytes
from minihadoop.processes import State
from minihadoop.yarn import Application, ContainerLog, NodeState

__all__ = [
    "Application",
    "BlockLocation",
    "ClusterConfig",
    "CommandError",
    "ContainerLog",
    "DataNodeState",
    "LinkBytes",
    "MiniHadoop",
    "MiniHadoopError",
    "NodeState",
    "NotReadyError",
    "RefusedError",
    "State",
    "down",
    "up",
]
