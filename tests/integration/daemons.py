"""A standalone cluster of Spark's own daemons on this machine: a Master, and Workers that start executors."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyspark
from integration.processes import wait_for
from integration.sandbox import QUICK_START, Sandbox

_LOOPBACK = "127.0.0.1"
_STARTS_S = 60.0
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


class Daemons:
    """A Master and its Workers, on loopback and on ports that the kernel chooses.

    Attributes:
        url: Of the Master.
        workers: The Workers' processes.
    """

    def __init__(self, sandbox: Sandbox, workers: int, cores: int, mib: int) -> None:
        """Starts them, and waits until the Workers are registered."""
        self._sandbox = sandbox
        self._folder = sandbox.folder / "daemons"
        self._folder.mkdir()
        self._processes: list[psutil.Process] = []
        self.workers: list[psutil.Process] = []
        self._start("master", [_MASTER, "--host", _LOOPBACK, "--port", "0", "--webui-port", "0"])
        self.url = self._said("master", r"Starting Spark master at (spark://\S+)")
        for i in range(workers):
            size = ["--cores", str(cores), "--memory", f"{mib}M", "--work-dir", str(self._folder / f"work-{i}")]
            places = ["--host", _LOOPBACK, "--port", "0", "--webui-port", "0"]
            self.workers.append(self._start(f"worker-{i}", [_WORKER, *places, *size, self.url]))
        for i in range(workers):
            self._said(f"worker-{i}", r"(Successfully registered with master)")

    def worker_of(self, process: psutil.Process) -> psutil.Process:
        """Returns the Worker that a process belongs to."""
        return next(parent for parent in process.parents() if parent in self.workers)

    def log(self, name: str) -> str:
        """Returns what "master" or "worker-0" has said."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        """Ends them, by their ids."""
        for process in reversed(self._processes):
            if process.is_running():
                process.terminate()
        psutil.wait_procs(self._processes, timeout=20)

    def _start(self, name: str, arguments: Sequence[str]) -> psutil.Process:
        jars = Path(pyspark.__file__).parent / "jars"
        (library,) = jars.glob("scala-library-*.jar")
        environment = {
            **self._sandbox.environment(),
            "SPARK_LOCAL_IP": _LOOPBACK,
            # As spark-class tells it: a Worker looks for a build of Spark without.
            "SPARK_SCALA_VERSION": ".".join(library.stem.split("-")[-1].split(".")[:2]),
        }
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else "java"
        options = ["-Xmx256m", "-XX:-UsePerfData", *QUICK_START.split()]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = psutil.Popen(
                [java, *options, "-cp", str(jars / "*"), *arguments],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _said(self, name: str, pattern: str) -> str:
        found = wait_for(f"{name} starts", lambda: re.search(pattern, self.log(name)), within_s=_STARTS_S)
        assert found is not None
        return str(found[1])
