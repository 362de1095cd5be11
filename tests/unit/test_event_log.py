"""The event log: segments, when they are written, and what becomes of events that cannot be."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sparktf.driver.event_log import EventLog, next_segment
from sparktf.errors import StorageError
from sparktf.results.events import AttemptEnded, LineSaid, LogEntry, MetricsSeen, UnknownEvent, read_events
from sparktf.sequence import Stream
from sparktf.storage.local import LocalStorage
from sparktf.topology import NodeId, Role


class Clock:
    """A clock that the test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Segments:
    """A folder in memory that may refuse to be written."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.away = False

    def write(self, path: str, content: bytes) -> None:
        if self.away:
            raise StorageError(f"cannot write {path}: away")
        self.files[path] = content

    def texts(self) -> dict[str, list[str]]:
        return {path: [text_of(e) for e in read_events(lines.splitlines())] for path, lines in self.files.items()}


def said(text: str) -> LineSaid:
    return LineSaid(text=text)


def text_of(entry: LogEntry) -> str:
    assert isinstance(entry.event, LineSaid)
    return entry.event.text


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def segments() -> Segments:
    return Segments()


def test_what_is_emitted_is_read_back(tmp_path: Path, clock: Clock) -> None:
    log = EventLog(LocalStorage().write_bytes, f"{tmp_path}/events/", clock)
    metrics = MetricsSeen(
        attempt=1,
        node=NodeId(role=Role.WORKER, index=0),
        stream=Stream.TRAIN,
        epoch=0,
        step=3,
        rows=9,
        values={"loss": math.inf},
    )
    ended = AttemptEnded(attempt=1, workers=2, hosts=("a", "b"), from_step=0, to_step=3, duration_s=0.5)
    log.emit(metrics)
    clock.now_s = 101.5
    log.emit(said("two\nlines and ünïcode\u2028"))
    log.emit(ended)
    log.flush()
    with LocalStorage().open(f"{tmp_path}/events/000001.jsonl") as lines:
        assert list(read_events(lines)) == [
            LogEntry(100.0, metrics),
            LogEntry(101.5, said("two\nlines and ünïcode\u2028")),
            LogEntry(101.5, ended),
        ]


def test_what_a_later_version_has_added_is_passed_over() -> None:
    lines = ['{"time_s": 1, "kind": "gate", "kept": true}', '{"time_s": 2, "kind": "line", "text": "a", "from": "b"}']
    assert list(read_events(lines)) == [LogEntry(1.0, UnknownEvent(kind="gate")), LogEntry(2.0, said("a"))]


def test_nothing_is_written_before_it_is_due(clock: Clock, segments: Segments) -> None:
    log = EventLog(segments.write, "/e", clock, max_events=3, max_age_s=5)
    log.flush()
    log.emit(said("a"))
    log.emit(said("b"))
    assert segments.files == {}


def test_many_events_make_a_segment(clock: Clock, segments: Segments) -> None:
    log = EventLog(segments.write, "/e", clock, max_events=2)
    for kind in "abcde":
        log.emit(said(kind))
    assert segments.texts() == {"/e/000001.jsonl": ["a", "b"], "/e/000002.jsonl": ["c", "d"]}


def test_an_old_event_makes_a_segment(clock: Clock, segments: Segments) -> None:
    log = EventLog(segments.write, "/e", clock, max_age_s=5)
    log.emit(said("a"))
    clock.now_s += 5
    log.emit(said("b"))
    log.emit(said("c"))
    assert segments.texts() == {"/e/000001.jsonl": ["a", "b"]}


def test_the_last_event_before_a_silence_is_stored_too(clock: Clock, segments: Segments) -> None:
    log = EventLog(segments.write, "/e", clock, max_age_s=5)
    assert log.keep_up()
    log.emit(said("the data is not ready"))
    clock.now_s += 4
    assert log.keep_up()
    assert segments.files == {}
    clock.now_s += 1
    assert log.keep_up()
    assert segments.texts() == {"/e/000001.jsonl": ["the data is not ready"]}
    log.end()
    assert not log.keep_up()


def test_a_resumed_run_goes_on_after_the_highest_segment(clock: Clock, segments: Segments) -> None:
    first = next_segment(["/e/000002.jsonl", "000011.jsonl", ".tmp-000099.jsonl", "x.jsonl"])
    log = EventLog(segments.write, "/e", clock, first_segment=first)
    log.emit(said("a"))
    log.flush()
    assert list(segments.files) == ["/e/000012.jsonl"]
    assert next_segment([]) == 1


def test_two_drivers_of_one_run_overwrite_no_segment_of_each_other(clock: Clock, segments: Segments) -> None:
    logs = {writer: EventLog(segments.write, "/e", clock, writer=writer, max_events=1) for writer in ("b1", "a2")}
    for kind, writer in (("1", "a2"), ("2", "b1"), ("3", "a2")):
        logs[writer].emit(said(kind))
    assert segments.texts() == {"/e/000001-a2.jsonl": ["1"], "/e/000001-b1.jsonl": ["2"], "/e/000002-a2.jsonl": ["3"]}
    assert next_segment(segments.files) == 3


def test_a_log_that_has_ended_writes_nothing_more(clock: Clock, segments: Segments) -> None:
    log = EventLog(segments.write, "/e", clock, max_events=2)
    log.emit(said("a"))
    log.end()
    log.emit(said("b"))
    log.flush()
    assert segments.files == {}


def test_whoever_emits_waits_for_no_storage(clock: Clock, segments: Segments) -> None:
    begun: list[Callable[[], None]] = []
    log = EventLog(segments.write, "/e", clock, max_events=2, beside=lambda name, work: begun.append(work))
    for kind in "abcd":
        log.emit(said(kind))
    assert segments.files == {}
    (write,) = begun  # one at a time
    write()
    log.emit(said("e"))
    log.flush()
    assert segments.texts() == {"/e/000001.jsonl": ["a", "b", "c", "d"], "/e/000002.jsonl": ["e"]}


def test_a_storage_that_is_away_loses_no_event_and_stops_no_one(clock: Clock, segments: Segments) -> None:
    log = EventLog(segments.write, "/e", clock, max_events=2, max_age_s=5)
    segments.away = True
    log.emit(said("a"))
    log.emit(said("b"))
    clock.now_s += 5
    log.emit(said("c"))
    with pytest.raises(StorageError, match=r"cannot write /e/000001\.jsonl"):
        log.flush()
    segments.away = False
    clock.now_s += 4
    log.emit(said("d"))
    assert segments.files == {}  # the next try is not due
    clock.now_s += 1
    log.emit(said("e"))
    assert segments.texts() == {"/e/000001.jsonl": ["a", "b", "c", "d", "e"]}


def test_a_writer_that_is_stuck_holds_up_no_other_thread(clock: Clock, segments: Segments) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def write(path: str, content: bytes) -> None:
        writing.set()
        assert go_on.wait(10)
        segments.write(path, content)

    log = EventLog(write, "/e", clock, max_events=1)
    stuck = threading.Thread(target=log.emit, args=(said("a"),))
    stuck.start()
    assert writing.wait(10)
    clock.now_s += 5
    log.emit(said("b"))
    go_on.set()
    stuck.join()
    log.flush()
    assert segments.texts() == {"/e/000001.jsonl": ["a"], "/e/000002.jsonl": ["b"]}


def test_events_of_many_threads_are_all_there_once(clock: Clock, segments: Segments) -> None:
    log = EventLog(segments.write, "/e", clock, max_events=7)

    def emit_all(t: int) -> None:
        for i in range(200):
            log.emit(said(f"{t}-{i}"))

    threads = [threading.Thread(target=emit_all, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.flush()
    kinds = [kind for found in segments.texts().values() for kind in found]
    assert sorted(kinds) == sorted(f"{t}-{i}" for t in range(4) for i in range(200))
    for t in range(4):
        assert [kind for kind in kinds if kind.startswith(f"{t}-")] == [f"{t}-{i}" for i in range(200)]


@pytest.mark.parametrize(
    "line", ["garbage", '{"kind": "line", "text": "a"}', '{"time_s": 1, "kind": "line"}', "[]", "3"]
)
def test_a_line_that_is_not_an_event_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 3 is not an event"):
        list(read_events(['{"time_s": 1, "kind": "a"}', "", line]))
