"""A node agent in a process of its own, whose trainers start by fork from a process that has imported TensorFlow.

That import is most of what a short training costs, and the exactness matrix starts 72 trainers. A forked trainer runs
`sparktf.trainer.__main__.main` as `python -m sparktf.trainer` does, is a child of the agent, and has its pipes. What
forking could hide is tested with `warm=False`.

Imports nothing of Spark: a trainer must not see it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Mapping, Sequence
from typing import IO, Any

from sparktf.executor import trainer_process as process
from sparktf.executor.agent import AgentSettings, agent_task

PRELOADED = ("tensorflow", "keras", "tf_keras", "sparktf.trainer.__main__", "sparktf.trainer.sync.training")

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def run_agent(partition: int, settings: AgentSettings, folder: str, warm: bool) -> None:
    """Runs an agent until it is dismissed.

    Args:
        folder: For everything that agent and trainers write locally.
        warm: Fork trainers, rather than starting an interpreter for each.
    """
    os.environ["SPARK_LOCAL_DIRS"] = folder
    if warm:
        # Before the agent makes its client: a fork would copy the locks of that one's threads.
        forking = types.SimpleNamespace(Popen=_start_nursery(), PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)
        vars(process)["subprocess"] = forking
    for _ in agent_task(partition, (), settings):
        pass


class ForkedTrainer:
    """As much of `subprocess.Popen` as an agent uses."""

    def __init__(self, nursery: socket.socket, log: IO[bytes], env: Mapping[str, str]) -> None:
        reading, writing = os.pipe()
        socket.send_fds(nursery, [json.dumps(dict(env)).encode()], [reading, log.fileno(), writing])
        os.close(reading)
        self.stdin = os.fdopen(writing, "wb")
        self.pid = int(nursery.recv(32))
        self._returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs."""
        if self._returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._returncode = os.waitstatus_to_exitcode(status)
        return self._returncode

    def wait(self) -> int:
        """Waits for the end; returns the exit code."""
        if self._returncode is None:
            self._returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


def _start_nursery() -> Any:
    """Forks the process that forks trainers; returns what stands in for `subprocess.Popen`."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        mine.close()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _serve(its)
    its.close()

    def popen(
        command: Sequence[str], *, stdin: int, stdout: IO[bytes], stderr: int, env: Mapping[str, str]
    ) -> ForkedTrainer:
        del command, stdin, stderr
        return ForkedTrainer(mine, stdout, env)

    return popen


def _serve(requests: socket.socket) -> None:
    """The nursery: forks twice for each request, so that the trainer becomes the child of the agent."""
    while True:
        body, fds, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not body:
            os._exit(0)
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == between:  # until the agent can wait for it
                time.sleep(0.001)
            requests.send(str(os.getpid()).encode())
            requests.close()
            _become_trainer(json.loads(body), *fds)
        os.waitpid(between, 0)
        for fd in fds:
            os.close(fd)


def _become_trainer(env: dict[str, str], stdin: int, log: int, writing: int) -> None:
    os.close(writing)
    os.environ.update(env)
    tempfile.tempdir = None  # as the environment says
    for target, fd in ((0, stdin), (1, log), (2, log)):
        os.dup2(fd, target)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
    from sparktf.trainer.__main__ import main

    main()


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value)
