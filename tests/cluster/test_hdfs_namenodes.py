"""A name service of several NameNodes, as far as one real NameNode behind faulty fronts can show it."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from storage_contract import names_below

from minihadoop import MiniHadoop
from sparktf.errors import StorageNotFoundError
from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.hdfs.hdfs import HdfsStorage


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class _Front(BaseHTTPRequestHandler):
    """Passes requests on to the NameNode; it dies on the answer to a rename, as a NameNode may that has done it."""

    to = ""
    renames = 0

    def _pass(self) -> None:
        request = urllib.request.Request(f"{self.to}{self.path}", method=self.command)
        try:
            answer = urllib.request.build_opener(_NoRedirects).open(request, timeout=10)
        except urllib.error.HTTPError as error:
            answer = error
        content = answer.read()
        if "op=RENAME" in self.path:
            type(self).renames += 1
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(answer.status)
        for key in ("Content-Type", "Location"):
            if key in answer.headers:
                self.send_header(key, answer.headers[key])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_DELETE = _pass

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def front(shared_cluster: MiniHadoop) -> Iterator[ThreadingHTTPServer]:
    with shared_cluster.inside():
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Front", (_Front,), {"to": shared_cluster.hdfs.url}))
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()
        server.server_close()


@pytest.fixture
def pair(shared_cluster: MiniHadoop, front: ThreadingHTTPServer) -> Iterator[HdfsStorage]:
    """A name service whose first NameNode is the front, and whose second one has taken over when it is asked."""
    found = HadoopConf.from_folder(shared_cluster.conf_dir()).properties
    lake = {f"dfs.namenode.rpc-address.lake.{name}": found["dfs.namenode.rpc-address"] for name in "ab"}
    conf = HadoopConf(
        properties={
            **lake,
            "fs.defaultFS": "hdfs://lake",
            "dfs.nameservices": "lake",
            "dfs.ha.namenodes.lake": "a,b",
            "dfs.namenode.http-address.lake.a": f"127.0.0.1:{front.server_address[1]}",
            "dfs.namenode.http-address.lake.b": found["dfs.namenode.http-address"],
        }
    )
    shared_cluster.hdfs.make_folder("/test-pair")
    storage = FileSystems(conf).open("hdfs://lake/")
    assert isinstance(storage, HdfsStorage)
    yield storage
    shared_cluster.hdfs.delete("/test-pair")


def test_a_rename_whose_answer_is_lost_in_a_failover_is_done_once(
    pair: HdfsStorage, front: ThreadingHTTPServer
) -> None:
    root = "hdfs://lake/test-pair"
    pair.make_dirs(f"{root}/a")
    pair.rename(f"{root}/a", f"{root}/b")
    assert names_below(pair, root) == ["b"]
    assert front.RequestHandlerClass.renames == 1  # type: ignore[attr-defined]
    pair.write_bytes(f"{root}/b/x", b"1")
    pair.write_bytes(f"{root}/b/x", b"2")
    assert pair.read_bytes(f"{root}/b/x") == b"2"
    with pytest.raises(StorageNotFoundError, match="cannot rename hdfs://lake/test-pair/a to"):
        pair.rename(f"{root}/a", f"{root}/c")


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_a_name_service_is_reached_by_each_protocol(shared_cluster: MiniHadoop, pair: HdfsStorage, scheme: str) -> None:
    shared_cluster.hdfs.put("/test-pair/x", b"1")
    conf = HadoopConf(
        properties={
            "dfs.nameservices": "lake",
            "dfs.ha.namenodes.lake": "a",
            "dfs.namenode.rpc-address.lake.a": f"{shared_cluster.config.master.fqdn}:8020",
            "dfs.namenode.http-address.lake.a": f"{shared_cluster.config.master.fqdn}:9870",
        }
    )
    assert FileSystems(conf).open(f"{scheme}://lake/").read_bytes(f"{scheme}://lake/test-pair/x") == b"1"
