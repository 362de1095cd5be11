"""Entry of a trainer's process: reads its specification as one JSON line from stdin, and ends when stdin is closed.

Secrets come this way because other users can read a command line and an environment. A trainer forked by the nursery
also begins with `main`.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from pathlib import Path

from sparktf.process.prctl import die_with
from sparktf.topology import tf_config
from sparktf.trainer import guest_life
from sparktf.trainer.guest_life import set_cluster
from sparktf.trainer.node.ending import end, fail
from sparktf.trainer.node.report import EXIT_STOPPED, Reporter
from sparktf.trainer.preload import complete_environment
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Bootstrap
from sparktf.wire.trainer_spec import THREADS, Function, TrainerSpec, Training

_STUCK = 0.5
"""Fraction of `timeouts.start` after which a start is considered to hang."""


def main() -> None:
    """Runs one trainer, and ends the process."""
    line = sys.stdin.readline()
    if not line:  # the agent is gone, or does not want the trainer any more
        os._exit(EXIT_STOPPED)
    bootstrap = Bootstrap.model_validate_json(line)
    if not die_with(bootstrap.parent):
        os._exit(EXIT_STOPPED)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of the terminal; the driver handles it
    threading.Thread(target=_watch_stdin, name="stdin", daemon=True).start()
    spec = bootstrap.spec
    prepare_environment(spec)
    # Dumps the stacks of all threads into the log: nothing else would show a library that hangs, or a model that waits.
    faulthandler.dump_traceback_later(spec.timeouts.start * _STUCK)
    client = ControlClient(bootstrap.access)
    reporter = Reporter(client, spec)
    reporter.start()
    work = Path(bootstrap.work)
    try:
        _train(spec, client, reporter, work)
    except BaseException as e:  # noqa: BLE001 - the process's edge: whatever it is, the driver gets it
        fail(e, spec, reporter, work)
    end(work, 0)


def _train(spec: TrainerSpec, client: ControlClient, reporter: Reporter, work: Path) -> None:
    if isinstance(spec, Function):
        guest_life.run(spec, client, reporter, work)
        return
    from sparktf.trainer import life  # noqa: PLC0415 - TensorFlow reads its environment when imported

    life.run(spec, client, reporter, work)


def prepare_environment(spec: TrainerSpec) -> None:
    """Sets the variables that TensorFlow reads, before gRPC starts a thread."""
    complete_environment()
    if isinstance(spec, Training) and spec.threads is not None:
        os.environ.setdefault(THREADS, str(spec.threads))
    if isinstance(spec, Function):
        set_cluster(spec.guest)
    elif len(spec.cluster.nodes()) > 1:
        os.environ["TF_CONFIG"] = tf_config(spec.cluster, spec.node)
        os.environ["TF_GRPC_REUSE_PORT"] = "1"  # the agent holds the port until TensorFlow has taken it


def _watch_stdin() -> None:
    sys.stdin.read()
    os._exit(EXIT_STOPPED)


if __name__ == "__main__":
    main()
