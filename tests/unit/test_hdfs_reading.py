"""What HDFS's words mean, calls that are watched, and patience."""

from __future__ import annotations

import threading

import pytest
import tenacity

from sparktf.errors import (
    StorageError,
    StorageExistsError,
    StorageNotFoundError,
    StoragePermissionError,
    StorageQuotaError,
    StorageUnavailableError,
)
from sparktf.storage.hdfs.hdfs_errors import error_type, kind_of_native
from sparktf.storage.hdfs.hdfs_native import CallThreads, StalledError, WatchedCall
from sparktf.storage.hdfs.hdfs_upload import Trouble


@pytest.mark.parametrize(
    ("exception", "message", "kind"),
    [
        ("FileNotFoundException", "rename destination parent /no/x not found.", StorageNotFoundError),
        ("AccessControlException", "/d/f (is not a directory)", StorageNotFoundError),
        ("AccessControlException", "Permission denied: user=alice", StoragePermissionError),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "", StorageQuotaError),
        ("SafeModeException", "Cannot rename /d. Name node is in safe mode.", StorageUnavailableError),
        ("IOException", "Source /d/f and destination /d/e must both be directories", StorageExistsError),
        ("IOException", "File /x could only be written to 0 of the 1 minReplication nodes", StorageUnavailableError),
        ("IOException", "Rename destination /d/e/x is a directory or file under source /d", StorageError),
        ("InvalidPathException", "Invalid path name", StorageError),
    ],
)
def test_a_java_exception_has_its_error(exception: str, message: str, kind: type[StorageError]) -> None:
    assert error_type(exception, message) is kind


def test_of_hdfs_native_the_text_says_it() -> None:
    text = "RPC error: org.apache.hadoop.security.AccessControlException: Permission denied: user=alice"
    assert kind_of_native(RuntimeError(text)) is StoragePermissionError
    assert kind_of_native(FileNotFoundError("/x")) is StorageNotFoundError
    assert kind_of_native(RuntimeError("early eof")) is StorageError


def test_a_call_that_gets_on_is_waited_for_and_one_that_does_not_is_given_up() -> None:
    threads, released, goes_on = CallThreads(), threading.Event(), threading.Event()

    def slow(call: WatchedCall[str]) -> str:
        for _ in range(4):
            goes_on.wait(0.15)
            call.progress += 1
        return "done"

    def stuck(call: WatchedCall[None]) -> None:
        released.wait()

    assert threads.start(slow).wait(0.5) == "done"
    call = threads.start(stuck)
    with pytest.raises(StalledError, match=r"the read made no progress for 0.05 s"):
        call.wait(0.05)
    assert call.abandoned
    assert threads.start(lambda call: 3).wait(5) == 3  # on a thread of its own
    released.set()


def test_what_a_call_raises_is_raised_where_it_is_waited_for() -> None:
    def fail(call: WatchedCall[None]) -> None:
        raise RuntimeError("in the other thread")

    with pytest.raises(RuntimeError, match="in the other thread"):
        CallThreads().start(fail).wait(5)


class TestTrouble:
    def test_only_what_time_may_mend_is_tried_again(self) -> None:
        tries = 0
        with pytest.raises(StorageQuotaError):
            for attempt in Trouble(5).attempts():
                with attempt:
                    tries += 1
                    raise StorageQuotaError("full") if tries == 3 else StorageUnavailableError("away")
        assert tries == 3

    def test_the_last_error_is_the_end(self) -> None:
        with pytest.raises(StorageUnavailableError, match=r"away \(after 0.2 s of trying\)"):
            for attempt in Trouble(0.2).attempts():
                with attempt:
                    raise StorageUnavailableError("away")

    def test_what_goes_on_in_between_starts_the_clock_again(self) -> None:
        def failing_at(seconds: float) -> bool:
            state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
            state.outcome_timestamp, state.upcoming_sleep = seconds, 0.0
            return bool(trouble._is_enough(state))

        trouble = Trouble(60)
        assert [failing_at(t) for t in (100, 159, 161)] == [False, False, True]
        trouble.over()
        assert [failing_at(t) for t in (200, 259, 260)] == [False, False, True]
