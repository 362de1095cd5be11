"""The run's event log: immutable segments of JSON lines, because HDFS has no shared append."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from functools import partial

from sparktf.errors import StorageError
from sparktf.results.events import Event, event_line
from sparktf.told import log_of

_SEGMENT = re.compile(r"^(\d{6,})(?:-(\w+))?\.jsonl$")

_log = log_of(__name__)


class EventLog:
    """Collects events and writes them as segments `000001-<writer>.jsonl`, ...; may be used from several threads."""

    def __init__(
        self,
        write: Callable[[str, bytes], None],
        folder: str,
        clock: Callable[[], float],
        *,
        first_segment: int = 1,
        writer: str = "",
        max_events: int = 1000,
        max_age_s: float = 5.0,
        beside: Callable[[str, Callable[[], None]], None] = lambda name, work: work(),
    ) -> None:
        """Opens the log; writes nothing yet.

        Args:
            write: Writes a file, whole or not at all (`Storage.write_bytes`).
            clock: Seconds since the epoch.
            first_segment: First segment's number: `next_segment` of the names that a resumed run finds.
            writer: Of letters and digits, one for each log that may be written at the same time: a driver that is
                frozen and thawed overwrites no segment of its successor's. Names of one writer sort in order.
            max_events: Events in memory that make the next `emit` write a segment.
            max_age_s: Age of the oldest event in memory that does so.
            beside: Runs the writing of such a segment elsewhere, so that `emit` waits for no storage. Default: at once.
        """
        self._write = write
        self._folder = folder.rstrip("/")
        self._clock = clock
        self._segment = first_segment
        self._suffix = f"-{writer}" if writer else ""
        self._ended = False
        self._max_events = max_events
        self._max_age_s = max_age_s
        self._beside = beside
        self._lines: list[bytes] = []
        self._due_s = 0.0
        self._lines_lock = threading.Lock()
        self._writing = threading.Lock()

    def emit(self, event: Event) -> None:
        """Adds an event; writes a segment when one is due.

        A segment that cannot be written is logged and tried again `max_age_s` later: training outlives a storage that
        is away for a while.
        """
        now = self._clock()
        line = event_line(now, event)
        with self._lines_lock:
            if not self._lines:
                self._due_s = now + self._max_age_s
            self._lines.append(line)
            due = now >= self._due_s or len(self._lines) == self._max_events
        if due:
            self._flush_beside(now)

    def keep_up(self) -> bool:
        """Writes a segment if one is due, since no later event may do so; returns False once the log has ended."""
        now = self._clock()
        with self._lines_lock:
            due = bool(self._lines) and now >= self._due_s
        if due:
            self._flush_beside(now)
        return not self._ended

    def flush(self) -> None:
        """Writes the events in memory, if any, as one segment. Raises `StorageError`; they then stay in memory."""
        with self._writing:
            self._write_segment()

    def end(self) -> None:
        """Forgets the events in memory; nothing is written from now on."""
        with self._lines_lock:
            self._ended = True
            self._lines.clear()

    def _flush_beside(self, now: float) -> None:
        """Flushes unless another thread does, so that no thread waits for another's write."""
        if self._writing.acquire(blocking=False):
            self._beside("events", partial(self._flush_held, now))

    def _flush_held(self, now: float) -> None:
        try:
            self._write_segment()
        except StorageError as error:
            _log.warning(
                "events are not stored yet and stay in memory; the next try is in %g s: %s", self._max_age_s, error
            )
            with self._lines_lock:
                self._due_s = now + self._max_age_s
        finally:
            self._writing.release()

    def _write_segment(self) -> None:
        with self._lines_lock:
            lines = [] if self._ended else self._lines.copy()
        if not lines:
            return
        # A failed write may have arrived all the same: the next try has the same number and at least the same events.
        self._write(f"{self._folder}/{self._segment:06d}{self._suffix}.jsonl", b"\n".join(lines) + b"\n")
        with self._lines_lock:
            del self._lines[: len(lines)]
            self._segment += 1


def writer_of(name: str) -> str:
    """Returns the writer of a segment, by its file's name or path; "" for a single log."""
    match = _SEGMENT.match(name.rpartition("/")[2])
    return (match.group(2) or "") if match else ""


def next_segment(names: Iterable[str]) -> int:
    """Returns the number after the highest segment among file names or paths; 1 if there is none."""
    found = (_SEGMENT.match(name.rpartition("/")[2]) for name in names)
    return max((int(match.group(1)) for match in found if match), default=0) + 1
