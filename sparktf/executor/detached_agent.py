"""An agent that outlives its Spark task, so that its executor's slot is free for feeders.

The task starts it as a process and waits until the gang is complete: until then each agent occupies a slot, so that no
two are on an executor with a single slot. The process ends with its executor's JVM.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sparktf.errors import ReservationError
from sparktf.executor.agent import AgentSettings, gpus_of_task, run_agent
from sparktf.executor.identity import executor_identity
from sparktf.executor.trainer_process import python_path
from sparktf.process.process_identity import is_alive, process_of

WHOLE = "sparktf: the gang is whole"
_LOOK_S = 1.0


def detached_agent_task(partition: int, rows: Iterable[object], settings: AgentSettings) -> Iterator[int]:
    """The function of the agents' job: starts an agent for the partition, and returns when the gang is complete.

    Raises:
        ReservationError: the agent ended before that.
    """
    from pyspark import TaskContext  # noqa: PLC0415 - the process that it starts imports this module, too

    del rows
    context: Any = TaskContext.get()
    gpus = gpus_of_task(context.resources(), settings)
    process = _started(partition, settings, context.taskAttemptId(), executor_identity(), gpus=gpus)
    assert process.stdout is not None
    for line in process.stdout:
        if line.decode(errors="replace").strip() == WHOLE:
            yield partition
            return
    raise ReservationError(
        f"the agent of node {partition} ended with exit code {process.wait()} before all nodes had registered"
    )


def start_beside(partition: int, settings: AgentSettings, code: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts an agent on the driver's machine, which ends with this process.

    `code` are additional import paths, which Spark adds only to those of its tasks.
    """
    own = f"{os.getpid()}@{process_of(os.getpid())[2]}"
    return _started(partition, settings, 0, own, code)


def _started(
    partition: int,
    settings: AgentSettings,
    task: int,
    jvm: str,
    code: Sequence[str] = (),
    gpus: Sequence[str] | None = None,
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sparktf.executor.detached_agent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*code, python_path()]), "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps((partition, settings, task, jvm, gpus)))
    process.stdin.close()
    return process


def _end_with(jvm: str) -> None:
    """Ends this process's group once the executor's JVM is gone."""
    while is_alive(jvm):
        time.sleep(_LOOK_S)
    os.killpg(os.getpgid(0), 9)


def main() -> None:
    """Runs the agent that is described on standard input."""
    partition, settings, task, jvm, gpus = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with, args=(jvm,), name="jvm", daemon=True).start()
    run_agent(partition, settings, task, jvm, _tell, gpus)


def _tell() -> None:
    """Reports to the task that the gang is complete, then closes its output, which the task no longer reads."""
    print(WHOLE, flush=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


if __name__ == "__main__":
    main()
