"""The rows that Spark brings to a function of another package's program, and the results that the function owes."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from sparktf.clock import Clock, ListeningClock, SystemClock
from sparktf.errors import ModelError, SparkTFError
from sparktf.feed.channel.any_rows import batch_to_rows, estimated_nbytes
from sparktf.feed.channel.brought_rows import BroughtRows, Hands

_LOOK_S = 0.5
_ONE_EACH = "batch_results() needs one result for each row of each batch, also of the shorter one at a partition's end"
_END = "a function takes rows until should_stop(), or calls terminate(), or returns"
AFTER_FEED = "spark.sparktf.timeouts.after_feed"
"""The setting of Spark for how long a function may go on when no more rows come."""


class GuestQueue:
    """Rows that wait for the function; thread-safe.

    Rows of a stream that wants answers are handed out once all rows before them are answered: so no result is taken for
    that of another stream's row. A function that leaves a row out has failed, and all calls raise that.

    Attributes:
        is_over: Whether the end has come, and all rows before it were taken; or the function has failed.
        function: The function and its node, for people.
        others: Says whether the function has threads that have neither taken rows nor given results.
        serves: Says whether the function only serves others, and never returns.
        place: Says where the function is, for people; "" if unknown.
        failed: Called on a thread of its own if the function fails without noticing: it is late, for example.
    """

    def __init__(
        self, most_nbytes: int, clock: Clock | None = None, thread: Callable[[], int] = threading.get_ident
    ) -> None:
        """Makes an empty queue; `put` waits while it holds more than `most_nbytes`. `thread`: the caller's identity."""
        self._most_nbytes = most_nbytes
        self._clock = ListeningClock(clock or SystemClock())
        self._thread = thread
        self._changed = threading.Condition()
        self._waiting: deque[tuple[pa.RecordBatch | None, BroughtRows]] = deque()
        self._nbytes = 0
        self._rows: list[Any] = []
        self._at = 0
        self._stream: BroughtRows | None = None
        self._passed: BroughtRows | None = None  # The last stream whose end the function has come to, if it is answered
        self._answering: deque[BroughtRows] = deque()
        self._turn: BroughtRows | None = None
        self._turns = 0
        self._hands = Hands()
        self._held_up = 0  # Threads of the function that wait for others: for rows, or for room
        self._moved_s = self._clock.now_s()
        self._ended = self._terminated = self._was_fed = self._has_returned = False
        self._ended_s = 0.0
        self._failure: ModelError | None = None
        self.is_over = False
        self.function = "the function"
        self.others: Callable[[], bool] = lambda: True
        self.serves: Callable[[], bool] = lambda: False
        self.place: Callable[[], str] = str
        self.failed: Callable[[SparkTFError], None] = lambda error: None

    # ---- the function's side ----

    def take(self, count: int) -> list[Any]:
        """Waits for `count` rows and returns them; fewer at the end, also at that of a stream that wants answers.

        Raises:
            ModelError: the function has left out results.
        """
        found: list[Any] = []
        while len(found) < count:
            if self._at == len(self._rows) and not self._next(stop=bool(found)):
                break
            part = self._rows[self._at : self._at + count - len(found)]
            self._at += len(part)
            found = part if not found else found + part
            self._taken(len(part))
        return found

    def _next(self, *, stop: bool) -> bool:
        """Makes the next batch the current one; returns whether there is one.

        With `stop` it does not go beyond the end of a stream that wants answers.
        """
        while True:
            with self._changed:
                self._hands.takers.add(self._thread())
                self._await_next()
                if not self._waiting or self._terminated:
                    self._moved_s = self._moved_s if self.is_over else self._clock.now_s()
                    self.is_over = True
                    return False
                batch, stream = self._waiting.popleft()
                if batch is None and stream.wants_answers:
                    self._passed = stream
                if batch is not None:
                    self._nbytes -= batch.nbytes
                self._changed.notify_all()
            if batch is None:  # the end of a stream
                if stop and stream.wants_answers:
                    return False
                continue
            self._rows, self._at, self._stream = batch_to_rows(batch), 0, stream
            return True

    def _await_next(self) -> None:
        """Waits for rows that may be taken, or the end of all."""
        while True:
            self._check()
            passed = self._passed
            if self._terminated or (self._ended and not self._waiting):
                return
            if passed is None or not passed.owed:
                if self._waiting:
                    return
                with self._waits_for_others():
                    self._clock.wait(self._changed, _LOOK_S)
            elif self._hands.leaves_out(self._thread(), others=self.others()):
                if not passed.is_gone:
                    raise self._fail(f"has given {passed.in_words}, and asks for more rows: {_ONE_EACH}")
                passed.owed = 0  # nobody waits for them
            else:
                self._clock.wait(self._changed, _LOOK_S)

    def _taken(self, count: int) -> None:
        with self._changed:
            self._moved_s = self._clock.now_s()
            if self._stream is not None:
                self._stream.left -= count
                self._stream.taken += count
                self._stream.owed += count if self._stream.wants_answers else 0
                if not self._stream.left:
                    self._changed.notify_all()

    def answer(self, results: list[Any]) -> None:
        """Takes the results of rows that were handed out, in order; waits while too many are unsent.

        Raises:
            ValueError: there are more results than rows that want one.
            ModelError: the function has left out results.
        """
        with self._changed:
            self._hands.givers.add(self._thread())
            left = list(results)
            while left:
                self._check()
                stream = next((stream for stream in self._answering if stream.owed), None)
                if stream is None:
                    raise ValueError(f"there are {len(left)} more results than rows")
                while stream.has_many and not self._may_hoard(stream):
                    with self._waits_for_others():
                        self._clock.wait(self._changed, _LOOK_S)
                part = left[: stream.owed]
                stream.owed -= len(part)
                stream.given += len(part)
                if not stream.is_gone:
                    stream.answers += part
                    stream.answers_nbytes += estimated_nbytes(part)
                left = left[len(part) :]
                self._moved_s = self._clock.now_s()
                self._changed.notify_all()

    def _may_hoard(self, stream: BroughtRows) -> bool:
        """Whether results are taken without a limit.

        Waiting callers may keep them from being read: Spark zips the results of two partitions.
        """
        return stream.is_gone or self._terminated or self._turns > 1

    @contextmanager
    def _waits_for_others(self) -> Iterator[None]:
        self._held_up += 1
        try:
            yield
        finally:
            self._held_up -= 1
            self._moved_s = self._clock.now_s()

    def terminate(self) -> None:
        """Ends the demand for rows: waiting and later ones are dropped."""
        with self._changed:
            self._terminated = True
            for batch, stream in self._waiting:
                stream.left -= 0 if batch is None else batch.num_rows
            self._waiting.clear()
            self._nbytes = 0
            self._changed.notify_all()

    def returned(self) -> None:
        """Ends the demand for rows with the function.

        Raises:
            ModelError: it has left out results, now or before.
        """
        with self._changed:
            self._check()
            short = next((stream for stream in self._answering if stream.is_short), None)
            if short is not None:
                raise self._fail(f"returned with {short.in_words}: {_ONE_EACH}")
            self._has_returned = True
        self.terminate()

    # ---- the server's side ----

    def put(self, batch: pa.RecordBatch | None, stream: BroughtRows) -> None:
        """Adds rows, or the end of a stream; waits while there is no room. Raises as `wait_taken`."""
        nbytes = 0 if batch is None else batch.nbytes
        with self._changed:
            stream.rows += 0 if batch is None else batch.num_rows
            self._was_fed = True
            if not stream.waits:
                stream.since_s = self._clock.now_s()
            while self._nbytes and self._nbytes + nbytes > self._most_nbytes and not self._terminated:
                stream.lacks_room = True
                self._wait(stream)
            stream.lacks_room = False
            if self._terminated:
                return
            if batch is not None:
                stream.left += batch.num_rows
                self._nbytes += nbytes
            self._waiting.append((batch, stream))
            self._changed.notify_all()

    @contextmanager
    def answered(self, stream: BroughtRows) -> Iterator[None]:
        """Makes a stream with results the current one within the context; others wait for their turn.

        Else rows of two partitions would be mixed. Raises as `wait_taken`.
        """
        with self._changed:
            self._turns += 1
            self._changed.notify_all()
        try:
            with self._changed:
                while self._turn is not None:
                    self._wait(stream)
                self._turn = stream
                self._answering = deque(one for one in self._answering if not one.is_answered)
                self._answering.append(stream)
            try:
                yield
            finally:
                try:
                    self.put(None, stream)
                finally:
                    with self._changed:
                        self._turn = None
        finally:
            with self._changed:
                self._turns -= 1
                stream.has_ended = True
                self._changed.notify_all()

    def wait_taken(self, stream: BroughtRows) -> None:
        """Waits until all rows of a stream, which has ended, were taken, or no more are wanted.

        Raises:
            ModelError: the function has left out results, or is late.
        """
        with self._changed:
            stream.has_ended = True
            while stream.left and not self._terminated:
                self._wait(stream)

    def wait_answers(self, stream: BroughtRows) -> list[Any]:
        """Waits for results of a stream and returns those not returned yet; none if no more will come.

        Raises:
            ModelError: the function has left out results, or is late.
        """
        with self._changed:
            while not stream.answers and not (stream.is_answered or stream.is_gone or self._terminated):
                self._wait(stream)
            found, stream.answers, stream.answers_nbytes = stream.answers, [], 0
            self._changed.notify_all()
            return found

    def forget(self, stream: BroughtRows) -> None:
        """Drops all further results of a stream."""
        with self._changed:
            stream.is_gone, stream.answers = True, []
            self._changed.notify_all()

    def end(self, limit_s: float = math.inf, after_s: float = math.inf) -> None:
        """Marks the end of all rows, and watches that the function ends in time, too; one that is late has failed.

        Args:
            limit_s: For a function to which rows were brought to come to their end.
            after_s: For any to return after that: its model is exported then, for example.
        """
        with self._changed:
            self._ended = True
            self._ended_s = self._clock.now_s()
            self._changed.notify_all()
        if min(limit_s, after_s) < math.inf:
            self._clock.every("end", 2 * _LOOK_S, lambda: self._goes_on(limit_s, after_s))

    def _goes_on(self, limit_s: float, after_s: float) -> bool:
        """Whether the function goes on after the end of all rows, as it may."""
        with self._changed:
            if self._has_returned or self._failure is not None:
                return False
            has_rows = self._was_fed and not self.is_over and not self._terminated
            late_s = self._clock.now_s() - max(self._moved_s, self._ended_s) - (limit_s if has_rows else after_s)
            if late_s <= 0 or self._held_up or self.serves():
                return True
            if has_rows:
                late = f"has not asked for more rows within {limit_s:g} s (feed_timeout) of their end"
                error = self._fail(f"{late}{self.place()}: {_END}")
            else:
                error = self._fail(
                    f"has not returned within {after_s:g} s ({AFTER_FEED}) of its rows' end{self.place()}"
                )
        self.failed(error)
        return False

    def _wait(self, stream: BroughtRows) -> None:
        """Waits for the function, as long as it may take. The lock is held."""
        self._check()
        if not self._held_up and stream.due_in_s(self._moved_s, self._clock.now_s()) <= 0:
            limit, done = f"within {stream.limit_s:g} s (feed_timeout)", stream.in_words
            if stream.wants_answers:
                late = f"has given {done}, and has neither taken rows nor given results {limit}"
            else:
                late = f"has taken {done}, and none {limit}"
            raise self.fail(late + self.place())
        self._clock.wait(self._changed, _LOOK_S)

    def fail(self, what: str) -> ModelError:
        """Returns the function's failure, which it need not notice, and which all calls raise from now on."""
        with self._changed:
            error = self._fail(what)
        self._clock.beside("failed", lambda: self.failed(error))
        return error

    def _check(self) -> None:
        if self._failure is not None:
            raise ModelError(str(self._failure))

    def _fail(self, what: str) -> ModelError:
        """Returns the function's failure, which all calls raise from now on."""
        self._failure = ModelError(f"{self.function} {what}")
        self.is_over = True  # the loop of a function that catches everything ends, too
        self._changed.notify_all()
        return self._failure
