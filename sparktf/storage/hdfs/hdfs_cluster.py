"""Makes the storage of an HDFS cluster."""

from __future__ import annotations

from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Timeouts
from sparktf.storage.credentials import Credentials, process_user
from sparktf.storage.hdfs.hdfs import HdfsStorage
from sparktf.storage.hdfs.hdfs_native import NativeClient
from sparktf.storage.hdfs.webhdfs import WebHdfs

_WEB = {"webhdfs": "http", "swebhdfs": "https"}


def open_cluster(
    scheme: str, authority: str, hadoop: HadoopConf, credentials: Credentials, timeouts: Timeouts
) -> HdfsStorage:
    """Returns the storage of a cluster for hdfs, webhdfs or swebhdfs; connects to nothing yet."""
    cluster = f"{scheme}://{authority}"
    native: NativeClient | None = None
    if scheme in _WEB:
        urls = [f"{_WEB[scheme]}://{authority}"]
    else:
        urls = [node.http for node in hadoop.namenodes(authority)]
        # hdfs-native takes its user from the environment, so it cannot act for another one.
        if credentials.user() == process_user():
            native = NativeClient(cluster, dict(hadoop.for_nodes().properties), timeouts.io_s)
    return HdfsStorage(cluster, WebHdfs(cluster, urls, credentials, timeouts), native, timeouts)
