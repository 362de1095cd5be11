"""`spark-submit` as a child process: its reports of the application, and how it is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sparktf.console.plain_console import say
from sparktf.knobs import KNOBS

_OURS = "@cluster "
_NOISE = ("WARNING: Using incubator modules", "WARNING: A restricted method", "WARNING: Use --enable-native-access")
_ID = re.compile(r"\bapplication_\d+_\d+\b")
_STATE = re.compile(r"\(state: ([A-Z_]+)\)")
# On Kubernetes: the application and its driver's pod, the pod's phase, and how its container is, or has ended.
_DEPLOYED = re.compile(r"application ID (\S+) and submission ID (\S+)")
_PHASE = re.compile(r"(?:\(phase: |\bphase: )(Pending|Running|Succeeded|Failed)\b")
_WAITS = re.compile(r"container state: waiting\\n\\?t?\s*pending reason: (\S+?)(?=\\n|\s|$)", re.IGNORECASE)
_ENDED = re.compile(r"exit code: (-?\d+)(?:\\n\\?t?\s*termination reason: (\S+?)(?=\\n|\s|$))?", re.IGNORECASE)
_DIAGNOSTICS = re.compile(r"diagnostics: (.*?)\\n\\?t?\s*(?:ApplicationMaster host|queue)")
# What spark-submit ends with in cluster mode: we say it better.
_FLATTENED = re.compile(r"SparkException: Application application_\d+_\d+ (finished with \w+ status|is killed)")
_TRACE = re.compile(r"\s+at |\s*\.\.\. \d+ more")


@dataclass(slots=True)
class ApplicationReport:
    """The state of an application, as reported by `spark-submit`."""

    application: str = ""  # Id of the application; empty until known
    state: str = ""  # Its state in YARN, or the phase of its driver's pod: ACCEPTED, Pending, ...; empty until known
    diagnostics: str = ""  # The cluster manager's message in the last report, if any
    submission: str = ""  # By which it is ended where that is not its id: "namespace:pod"
    _ends: bool = False

    @property
    def has_started(self) -> bool:
        """Whether the application has been given its first container, or has ended."""
        return self.state not in ("", "NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "Pending")

    @property
    def waits(self) -> bool:
        """Whether the cluster manager has taken the application, and has no room for it yet."""
        return self.state in ("ACCEPTED", "Pending")

    def note(self, line: str) -> bool:
        """Reads a line; returns whether people should see it too."""
        if found := _ID.search(line):
            self.application = self.application or found.group()
        if found := _STATE.search(line):
            self.state = found.group(1)
        if found := _DEPLOYED.search(line):
            self.application, self.submission = found.groups()
        if found := _PHASE.search(line):
            self.state = found.group(1)
        if found := _WAITS.search(line):
            self.diagnostics = f"the driver's pod waits: {found.group(1)}"
        if found := _ENDED.search(line):
            code, why = found.groups()
            self.diagnostics = f"the driver's pod exited with status {code}{f' ({why})' if why else ''}"
        if found := _DIAGNOSTICS.search(line):
            self.diagnostics = found.group(1).replace("\\n", "\n").strip()
        self._ends = _FLATTENED.search(line) is not None or (self._ends and _TRACE.match(line) is not None)
        return not self._ends and not line.startswith((_OURS, *_NOISE))


class SparkSubmit:
    """A `spark-submit`; its output goes to ours, except the cluster manager's reports."""

    def __init__(
        self, line: Sequence[str], environment: Mapping[str, str], hear: Callable[[str], None] | None = None
    ) -> None:
        """Starts it.

        Args:
            hear: Takes the lines of its standard error, on a thread; then it has no other output.
        """
        self._hear = hear or say
        self.report = ApplicationReport()
        # A group of its own: Ctrl-C reaches us alone, and we stop things in order.
        self._process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if hear else None, stderr=subprocess.PIPE,
            text=True, errors="replace", env=environment, process_group=0,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name="spark-submit", daemon=True)
        self._reader.start()

    def wait(self, timeout_s: float) -> int | None:
        """Returns the exit code; None if it has not ended in time."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(KNOBS.last_output_s)
        return code

    def interrupt(self) -> None:
        """Interrupts it and its driver, as Ctrl-C does."""
        self._send(signal.SIGINT)

    def kill(self) -> None:
        """Kills it, and a driver on this machine."""
        self._send(signal.SIGKILL)
        self._process.wait()
        self._reader.join(KNOBS.last_output_s)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as output:
            for line in output:
                if self.report.note(line):
                    self._hear(line.rstrip("\n"))


def kill_application(spark_class: str, application: str, environment: Mapping[str, str]) -> bool:
    """Kills an application through Hadoop's client, with the user's credentials; returns whether that worked."""
    return _is_done(
        [spark_class, "org.apache.hadoop.yarn.client.cli.ApplicationCLI", "application", "-kill", application],
        environment,
    )


def kill_submission(spark_submit: str, master: str, submission: str, environment: Mapping[str, str]) -> bool:
    """Kills the driver of a submission that spark-submit knows by an id; returns whether that worked."""
    return _is_done([spark_submit, "--master", master, "--kill", submission], environment)


def _is_done(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=KNOBS.kill_application_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
