"""The nursery (a fork server): a process of an executor that has imported TensorFlow, and forks trainers.

Importing takes most of a trainer's start. The first agent of an executor starts
`python -m sparktf.trainer.nursery PARENT PLACE [MODULE...]`, with a socket that listens at PLACE as its standard input.
Agents connect, and ask for each trainer with a message: a number, and the descriptors of its standard input, its log,
and what it is: its module and environment. They get its pid with that number, and later its exit code. So does a
trainer that tries its exported model, for a process that has imported nothing of the model's code.

A fork copies only the thread that forks, so the nursery has a single thread, no gRPC channel, and no device.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from sparktf.process.fork_server import PLACE
from sparktf.process.module_search import forget_folders
from sparktf.process.prctl import die_with, outlive_parent
from sparktf.process.resident import forget_libraries
from sparktf.trainer.preload import complete_environment, import_all, without_collector

_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""The variables that OpenBLAS reads for the number of its threads, in this order."""

_FOR_ONE_THREAD = {_BLAS_THREADS[0]: "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps NumPy and Arrow from starting threads when they are imported; removed in trainers."""

_REQUEST_NBYTES = 1 << 12
_NAME = "sparktf.trainer.nursery"


def main() -> None:
    """Imports, and serves until the last agent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of the terminal; the driver handles it
    if not die_with(int(sys.argv[1])):
        os._exit(0)
    import_with_one_thread(sys.argv[3:])
    outlive_parent()  # others may be connected, too
    Agents(socket.socket(fileno=0), Path(sys.argv[2])).serve()
    os._exit(0)


def import_with_one_thread(also: Sequence[str]) -> None:
    """Imports the modules that trainers share, without starting a thread."""
    complete_environment()
    with for_one_thread(), without_collector():  # which would write to memory that trainers share
        import_all(also)


@contextmanager
def for_one_thread() -> Iterator[None]:
    """Sets the variables that keep imports from starting threads, for as long as they take."""
    before = {name: os.environ.get(name) for name in _FOR_ONE_THREAD}
    os.environ.update(_FOR_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Agents:
    """The connected agents, and their trainers."""

    def __init__(self, listening: socket.socket, place: Path) -> None:
        self._listening = listening
        self._place = place
        self._trainers: dict[socket.socket, set[int]] = {}
        self._has_forked = self._is_over = False
        self._woken, self._wakes = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Answers requests until the last agent is gone."""
        for end in (self._listening, self._woken, self._wakes):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._listening, selectors.EVENT_READ, self._admit)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)
        while not self._is_over:
            for key, _ in self._selector.select():
                key.data(key.fileobj)

    def _admit(self, listening: socket.socket) -> bool:
        """Accepts an agent; returns whether there was one."""
        try:
            agent, _ = listening.accept()
        except BlockingIOError:
            return False
        self._trainers[agent] = set()
        self._selector.register(agent, selectors.EVENT_READ, self._obey)
        _tell(agent, {"ready": True})
        return True

    def _obey(self, agent: socket.socket) -> None:
        """Answers a request, or notices that an agent is gone."""
        try:
            request, files, _, _ = socket.recv_fds(agent, _REQUEST_NBYTES, 3)
        except ConnectionError:
            request, files = b"", []
        if not request:
            self._dismiss(agent)
            return
        try:
            _tell(agent, {"asked": int(request), **self._fork(agent, *files)})
        finally:
            for file in files:
                os.close(file)
        if not self._has_forked:
            self._has_forked = True
            forget_libraries()

    def _dismiss(self, agent: socket.socket) -> None:
        """Kills the trainers of an agent that is gone, and ends the nursery if it was the last."""
        self._selector.unregister(agent)
        for trainer in self._trainers.pop(agent):
            os.kill(trainer, signal.SIGKILL)
        if not self._trainers:
            self._place.unlink(missing_ok=True)  # agents that connected before are served
            self._is_over = not self._admit(self._listening)
        if self._is_over:
            _tell(agent, {"over": True})
        agent.close()

    def _reap(self, woken: socket.socket) -> None:
        """Reports trainers that have ended to their agents, before the kernel can reuse a pid."""
        with suppress(BlockingIOError):
            woken.recv(_REQUEST_NBYTES)
        with suppress(ChildProcessError):
            while (end := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
                for agent, trainers in self._trainers.items():
                    if end.si_pid in trainers:
                        trainers.remove(end.si_pid)
                        _tell(agent, {"exited": end.si_pid, "code": code})
                os.waitpid(end.si_pid, 0)

    def _fork(self, agent: socket.socket, stdin: int, log: int, what: int) -> dict[str, Any]:
        """Forks a process; returns the answer to who has asked for it."""
        threads = len(os.listdir("/proc/self/task"))
        if threads > 1:
            return {"refused": f"it has {threads} threads, and a fork would copy one"}
        parent = os.getpid()
        try:
            trainer = os.fork()
        except OSError as e:
            return {"refused": str(e)}
        if not trainer:
            self._be_gone()
            _become_another(stdin, log, what, {PLACE: str(self._place)})
        self._trainers[agent].add(trainer)
        return {"pid": trainer, "parent": parent}

    def _be_gone(self) -> None:
        """Closes all sockets in a fork, or agents would not notice the nursery's end."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for end in (self._woken, self._wakes, self._listening, *self._trainers):
            end.close()


def _tell(agent: socket.socket, message: Mapping[str, Any]) -> None:
    with suppress(ConnectionError):  # it is gone, which is heard next
        agent.send(json.dumps(message).encode())


def _become_another(stdin: int, log: int, what: int, adds: Mapping[str, str]) -> NoReturn:
    """Turns this process into `python -m` of a module, with its environment and more variables, and runs it."""
    code = 1
    try:
        with os.fdopen(what) as said:
            told = json.load(said)
        module, names = told["module"], {**told["environment"], **adds}
        for target, file in ((0, stdin), (1, log), (2, log)):
            os.dup2(file, target)
        os.close(stdin)
        os.close(log)
        os.environ.clear()
        os.environ.update(names)
        sys.path[:] = names["PYTHONPATH"].split(os.pathsep)
        tempfile.tempdir = None  # as the environment says
        forget_folders()
        _be_called(module)
        _use_all_cores()
        _be_random()
        importlib.import_module("sparktf.trainer.__main__" if module == "sparktf.trainer" else module).main()
    except BaseException:  # noqa: BLE001 - the process's edge
        traceback.print_exc()
    finally:
        os._exit(code)


def _be_called(module: str) -> None:
    """Makes `ps` show `python -P -m` of a module: the kernel reads the command line from the process's memory."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    line = ctypes.string_at(begin, end - begin)
    if _NAME.encode() in line:
        name = line[: line.index(_NAME.encode())] + module.encode()
        ctypes.memmove(begin, name.ljust(end - begin, b"\0")[: end - begin], end - begin)


def _use_all_cores() -> None:
    """Gives the OpenBLAS of NumPy and SciPy its usual number of threads."""
    asked = next((os.environ[name] for name in _BLAS_THREADS if os.environ.get(name, "").isdigit()), "")
    count = int(asked or len(os.sched_getaffinity(0)))
    maps = Path("/proc/self/maps").read_text().splitlines()
    for path in {line.split(maxsplit=5)[-1] for line in maps if "openblas" in line}:
        library = ctypes.CDLL(path)
        for name in (
            f"{prefix}openblas_set_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")
        ):
            if hasattr(library, name):
                getattr(library, name)(count)


def _be_random() -> None:
    """Seeds NumPy, or all trainers would draw the same numbers; Python's generator reseeds itself after a fork."""
    sys.modules["numpy"].random.seed()


if __name__ == "__main__":
    main()
