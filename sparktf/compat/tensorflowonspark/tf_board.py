"""TensorBoard beside the driver, for `TFCluster.run(tensorboard=True)`. Knows nothing of Spark."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping

from sparktf.errors import ConfigError, PreflightError
from sparktf.nightly import errand

PORT = "TENSORBOARD_PORT"
"""TensorFlowOnSpark's own setting; any free port without it."""


class Board:
    """A TensorBoard process, which ends with this process in any case.

    It has no authentication, so it listens at one address only.

    Attributes:
        url: Where it is.
    """

    def __init__(self, host: str, folder: str, environment: Mapping[str, str] = os.environ) -> None:
        """Starts it.

        Args:
            host: The address.
            folder: The logs.
            environment: May set the port.

        Raises:
            PreflightError: it is not installed, or cannot be started; or its port is taken.
            ConfigError: TENSORBOARD_PORT is no port.
        """
        if importlib.util.find_spec("tensorboard") is None:
            raise PreflightError("tensorboard=True needs TensorBoard: pip install tensorboard")
        port = _port(host, environment)
        own = [sys.executable, "-m", "tensorboard.main", "--reload_multifile=True", f"--logdir={folder}"]
        self._command = [*own, f"--host={host}", f"--port={port}"]
        self.url = f"http://{host}:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = threading.Event()
        # The kernel ends the child with the thread that has started it, so that thread stays.
        self._thread = threading.Thread(target=self._run, name="tensorboard", daemon=True)
        self._thread.start()
        self._begun.wait()
        if self._process is None:
            raise PreflightError("TensorBoard cannot be started: this machine cannot start a process")

    def stop(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.terminate()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", errand.__name__, str(os.getpid()), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=errand.environment_of({}),
            )
        except OSError:
            return
        finally:
            self._begun.set()
        self._process.wait()


def _port(host: str, environment: Mapping[str, str]) -> int:
    text = environment.get(PORT, "0")
    if not text.isdecimal() or int(text) > 65535:
        raise ConfigError(f"{PORT}: {text!r} is not a port: give a number up to 65535, or unset it")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(text)))
        except OSError as error:
            raise PreflightError(f"TensorBoard cannot listen at {host}:{text}: {error.strerror}") from error
        return int(probe.getsockname()[1])
