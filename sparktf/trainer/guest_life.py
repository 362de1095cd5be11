"""A node that runs a guest's function, with its rows, under the same supervision as other trainers.

The function itself decides whether to import TensorFlow.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import threading
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from sparktf.errors import ModelError
from sparktf.feed.channel.guest_feed import POOL, GuestServer
from sparktf.feed.channel.guest_queue import GuestQueue
from sparktf.process.ports import started
from sparktf.trainer import joined_server
from sparktf.trainer.main_place import main_place
from sparktf.trainer.node.ending import fail
from sparktf.trainer.node.report import Reporter
from sparktf.trainer.preload import import_without_collector, put_off_rare
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action, Ready
from sparktf.wire.guest import GuestNode
from sparktf.wire.trainer_spec import Function
from sparktf.wire.uploads import Finished

_LEADERS = ("chief", "master")
_MOST_NBYTES = 64 << 20
"""Bytes of rows that wait for the function before feeders must wait."""

NodeFunction = Callable[[GuestNode, GuestQueue | None], Any]


def set_cluster(node: GuestNode) -> None:
    """Sets TF_CONFIG as TensorFlowOnSpark does: only if there is a chief or a master."""
    os.environ.pop("TF_CONFIG", None)
    if any(leader in node.cluster for leader in _LEADERS):
        cluster = {job: list(addresses) for job, addresses in node.cluster.items()}
        task = {"type": node.job, "index": node.index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
    os.environ["TF_GRPC_REUSE_PORT"] = "1"  # the agent holds the port until TensorFlow has taken it


def run(spec: Function, client: ControlClient, reporter: Reporter, work: Path) -> None:
    """Runs the function, and waits for the order to stop."""
    node = spec.guest
    queue = GuestQueue(_MOST_NBYTES) if node.is_fed else None
    address = None
    if queue is not None:
        queue.others = partial(_has_threads, frozenset(threading.enumerate()))
        queue.serves = lambda: joined_server.phase() == "serving"
        queue.place = main_place
        queue.failed = lambda error: fail(error, spec, reporter, work)
        access = client.access
        host = spec.cluster.address(spec.node).rpartition(":")[0]
        folder = work / "feed"
        folder.mkdir(mode=0o700)
        rest = (folder, access.secret, access.tls, queue)
        server = started(host, "0", lambda port: GuestServer(host, port, *rest))
        address = server.address
    ready = Ready(**spec.sender, replicas=1, keras="none", versions={}, weights=0, data=address)
    reporter.send(Action.READY, ready)
    faulthandler.cancel_dump_traceback_later()
    reporter.tell_phase(joined_server.phase)
    put_off_rare()
    import_without_collector()
    module, _, name = spec.function.partition(":")
    main: NodeFunction = getattr(importlib.import_module(module), name)
    function = f"{main.__name__} on {spec.node}"
    if queue is not None:
        queue.function = function
    _call(function, main, node, queue)
    if queue is not None:
        queue.returned()  # feeders need not wait any longer
    reporter.send(Action.FINISHED, Finished(**spec.sender, step=0, model=()))
    reporter.enter("finished")
    reporter.finish()


def _call(function: str, main: NodeFunction, node: GuestNode, queue: GuestQueue | None) -> None:
    """Calls the function. One that leaves by `sys.exit()` as a script may, without an error, has returned."""
    try:
        main(node, queue)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise ModelError(f"{function} ended by sys.exit({end.code!r})") from end


def _has_threads(own: Collection[threading.Thread]) -> bool:
    """Whether the function has started threads in Python, besides the node's `own`; or takes rows on another one."""
    if threading.current_thread() is not threading.main_thread():
        return True
    return any(thread not in own and not thread.name.startswith((POOL, "Dummy-")) for thread in threading.enumerate())
