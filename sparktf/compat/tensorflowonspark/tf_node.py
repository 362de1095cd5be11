"""The arguments of a function on its node: TensorFlowOnSpark's context, its feed, and its paths."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from sparktf.compat.tensorflowonspark.tf_inside import inside_names
from sparktf.compat.tensorflowonspark.tf_manager import QueuedRows
from sparktf.feed.channel.guest_queue import GuestQueue
from sparktf.storage.credentials import login_name
from sparktf.wire.guest import GuestNode

_SCHEMES = ("adl", "file", "hdfs", "oss", "s3", "s3a", "s3n", "swift", "viewfs", "wasb", "webhdfs")
_WORKING = ("master", "chief", "worker")


class TFNodeContext:
    """A node's identity, and its services for the function.

    Attributes:
        executor_id: Its number among all nodes; `worker_num` is the same.
        job_name: "worker", "ps", "chief", "master" or "evaluator".
        task_index: Its number among those of its name.
        cluster_spec: Name -> addresses ("host:port").
        num_workers: How many nodes work: no servers, no evaluator.
        defaultFS: The file system of paths without a scheme.
        working_dir: Where the driver was started.
        mgr: Its feed, for `DataFeed`.
        tmp_socket: Holds its port, until `release_port`, where `TFCluster.run(release_port=False)` was asked for.
    """

    def __init__(
        self,
        executor_id: int = 0,
        job_name: str = "",
        task_index: int = 0,
        cluster_spec: Mapping[str, list[str]] | None = None,
        defaultFS: str = "file://",
        working_dir: str = ".",
        mgr: GuestQueue | None = None,
        tmp_socket: socket.socket | None = None,
    ) -> None:
        self.worker_num = self.executor_id = executor_id
        self.job_name = job_name
        self.task_index = task_index
        self.cluster_spec = dict(cluster_spec or {})
        self.num_workers = sum(len(nodes) for job, nodes in self.cluster_spec.items() if job in _WORKING)
        self.defaultFS = defaultFS
        self.working_dir = working_dir
        self.mgr = mgr
        self.tmp_socket = tmp_socket

    @classmethod
    def of(cls, node: GuestNode, queue: GuestQueue | None) -> TFNodeContext:
        """Returns the context of a node."""
        cluster = {job: list(addresses) for job, addresses in node.cluster.items()}
        return cls(node.number, node.job, node.index, cluster, node.default_fs, node.working_dir, queue)

    @classmethod
    def holding(cls, node: GuestNode, queue: GuestQueue | None) -> TFNodeContext:
        """Returns the context of a node, with a socket at the node's port."""
        found = cls.of(node, queue)
        found.tmp_socket = held_port(int(node.cluster[node.job][node.index].rpartition(":")[2]))
        return found

    @classmethod
    def alone(cls, node: GuestNode, queue: GuestQueue | None) -> TFNodeContext:
        """Returns the context of one of several independent instances, which know only their number."""
        found = cls(node.number, defaultFS=node.default_fs)
        found.num_workers = sum(len(addresses) for addresses in node.cluster.values())
        return found

    def absolute_path(self, path: str | os.PathLike[str]) -> str:
        """See `hdfs_path`."""
        return hdfs_path(self, path)

    def get_data_feed(
        self,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ) -> DataFeed:
        """Returns the node's feed. Raises `RuntimeError` if Spark feeds this node nothing."""
        return DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def release_port(self) -> None:
        """See `release_port`."""
        release_port(self)

    def start_cluster_server(self, num_gpus: int = 1, rdma: bool = False) -> Any:
        """See `start_cluster_server`."""
        return start_cluster_server(self, num_gpus, rdma)

    def export_saved_model(self, sess: Any, export_dir: str, tag_set: str, signatures: Any) -> None:
        """See `export_saved_model`."""
        export_saved_model(sess, export_dir, tag_set, signatures)


class DataFeed:
    """The rows that Spark feeds to a node. Batches are made from columns; rows are the same as in the RDD."""

    def __init__(
        self,
        mgr: Any,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ) -> None:
        """Takes the node's feed, `ctx.mgr`.

        Args:
            mgr: Also a `TFManager`, whose queues a program's own test has filled.
            qname_in: Of a `TFManager`: its queue of rows; `qname_out` is that of results.
            input_mapping: Column -> tensor: batches are dicts then; rows have the columns in the order of their names.

        Raises:
            RuntimeError: Spark feeds this node nothing.
        """
        if mgr is None:
            raise RuntimeError("Spark feeds this node no rows: it is a server, or input_mode is InputMode.TENSORFLOW")
        self.mgr = mgr
        self.train_mode = train_mode
        self.qname_in, self.qname_out = qname_in, qname_out
        is_node = isinstance(mgr, GuestQueue)
        self._rows = mgr if is_node else QueuedRows(mgr, qname_in, qname_out, train_mode=train_mode)
        self.input_tensors = None if input_mapping is None else [tensor for _, tensor in sorted(input_mapping.items())]

    @property
    def done_feeding(self) -> bool:
        """Whether no rows are left."""
        return self._rows.is_over

    def next_batch(self, batch_size: int) -> Any:
        """Returns the next rows, fewer at the end; waits for them. With an input mapping, tensor -> values."""
        rows = self._rows.take(batch_size)
        if self.input_tensors is None:
            return rows
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.input_tensors)
        return {tensor: list(columns[i]) for i, tensor in enumerate(self.input_tensors)}

    def should_stop(self) -> bool:
        """Whether no rows are left, or none are wanted."""
        return self._rows.is_over

    def batch_results(self, results: Any) -> None:
        """Gives the results of the last rows to the caller of `TFCluster.inference`, one for each row."""
        self._rows.answer(list(results))

    def terminate(self) -> None:
        """Wants no more rows: later ones are dropped."""
        self._rows.terminate()


def hdfs_path(ctx: Any, path: str | os.PathLike[str]) -> str:
    """Returns a path as TensorFlow finds it.

    Without a scheme it is on the default file system; a relative one is in the user's folder there, or in the driver's
    working folder.
    """
    path = os.fspath(path)
    scheme, separator, _ = path.partition("://")
    if separator and scheme in _SCHEMES:
        return path
    if path.startswith("/"):
        return f"{ctx.defaultFS}{path}"
    if ctx.defaultFS.startswith(("hdfs://", "viewfs://")):
        return f"{ctx.defaultFS}/user/{login_name()}/{path}"
    if ctx.defaultFS.startswith("file://"):
        return f"{ctx.defaultFS}/{ctx.working_dir[1:]}/{path}"
    return f"{ctx.defaultFS}/{path}"


def start_cluster_server(ctx: Any, num_gpus: int = 1, rdma: bool = False) -> Any:
    """Raises `RuntimeError`: this is of TensorFlow 1."""
    raise RuntimeError(
        "start_cluster_server belongs to TensorFlow 1: use tf.distribute strategies, which read TF_CONFIG"
    )


def export_saved_model(sess: Any, export_dir: str, tag_set: str, signatures: Any) -> None:
    """Raises `RuntimeError`: this is of TensorFlow 1."""
    raise RuntimeError(
        "export_saved_model with a session belongs to TensorFlow 1: use model.export or tf.saved_model.save"
    )


def release_port(ctx: Any) -> None:
    """Closes the socket at the node's port, if there is one: TensorFlow can take the port with it or without."""
    if ctx.tmp_socket is not None:
        ctx.tmp_socket.close()
        ctx.tmp_socket = None


def held_port(port: int) -> socket.socket:
    """Returns a socket at the node's port, which its agent holds too: nobody else gets it, but TensorFlow does."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind(("", port))
    return found


globals().update(inside_names("TFNode"))
