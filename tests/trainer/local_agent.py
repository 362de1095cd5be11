"""A node agent in a process of its own.

Imports nothing of Spark: a trainer must not see it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from sparktf.executor import agent
from sparktf.executor.forking import Nursery, wants_nursery
from sparktf.trainer import nursery

_REQUEST_NBYTES = 1 << 16


def run_agent(partition: int, settings: agent.AgentSettings, folder: str, task: int, imports: bool) -> None:
    """Runs an agent until it is dismissed.

    Args:
        folder: For everything that agent and trainers write locally.
        task: See `agent.run_agent`.
        imports: Its nursery imports TensorFlow, as everywhere else; if not, it is a fork of this process, which has it.
    """
    os.environ["SPARK_LOCAL_DIRS"] = folder
    if not imports and wants_nursery(settings.nursery):
        ForkOfThis.talk, ForkOfThis.child = _fork_nursery()  # before there are threads
        vars(agent)["Nursery"] = ForkOfThis
    agent.run_agent(partition, settings, task)


class ForkOfThis(Nursery):
    """A nursery whose process is there already, and waits to be told what one gets that is started."""

    talk: socket.socket
    child: int

    def _start(
        self, listening: socket.socket, log: IO[bytes], environment: Mapping[str, str], arguments: Sequence[str]
    ) -> int:
        said = json.dumps([dict(environment), list(arguments)]).encode()
        socket.send_fds(self.talk, [said], [listening.fileno(), log.fileno()])
        self.talk.close()
        return self.child


def _fork_nursery() -> tuple[socket.socket, int]:
    """Returns the socket that it waits at, and its process."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if child := os.fork():
        there.close()
        return here, child
    here.close()
    said, files, _, _ = socket.recv_fds(there, _REQUEST_NBYTES, 2)
    if not said:  # the agent is gone
        os._exit(0)
    for target, file in zip((0, 1, 2), (files[0], files[1], files[1]), strict=True):
        os.dup2(file, target)
    there.close()
    for file in files:
        os.close(file)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has put another one there
    environment, arguments = json.loads(said)
    # As one that has been started, it has nothing of the model's code, and forks what reads a model without it.
    for name in [name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]]:
        del sys.modules[name]
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [sys.argv[0], *arguments]
    nursery.main()
    os._exit(0)
