"""Simulated time: one event queue, and processes whose threads are its coroutines. No OS thread, and nobody sleeps."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet


class SimulationError(AssertionError):
    """The product did what it never may: block under a lock that nodes report under, or touch storage in a handler."""


class OverrunError(BaseException):
    """The seed is ended: it would not end by itself. No error of the product's, which nobody there may catch."""


CUT = "counts as lost"
"""At the end of what is said of a link that the network has cut."""


class PeerLostError(Exception):
    """A collective broke, or whoever was called is gone."""


class Hub:
    """The event queue. Events at one time happen in the order in which they were asked for.

    Attributes:
        now: Simulated seconds.
        events: So many have happened, of `most_events`.
        crashes: What processes ended with that nobody expected.
        look: A process has ended since.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.events, self.most_events = 0, 1 << 62
        self.crashes: list[str] = []
        self.look = True
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._main = getcurrent()

    def at(self, delay_s: float, event: Callable[[], None]) -> None:
        """Has something happen after a while."""
        heapq.heappush(self._queue, (self.now + delay_s, next(self._count), event))

    def run(self, is_over: Callable[[], bool], until_s: float) -> bool:
        """Lets events happen until it is over, asked when a process has ended; returns False if it is not by then."""
        queue, self.look = self._queue, True
        while not (self.look and is_over()):
            self.look = False
            if not queue or queue[0][0] > until_s:
                return False
            self.now, _, event = heapq.heappop(queue)
            self.events += 1
            if self.events > self.most_events:
                raise OverrunError(f"the seed has had {self.most_events} events, and is not over at {self.now:.0f} s")
            event()
        return True

    def switch(self) -> None:
        """Gives way to the next event; the caller's greenlet is resumed by one."""
        if getcurrent() is self._main:
            raise SimulationError("a handler of messages waited, or touched the storage")
        self._main.switch()


class Waiter:
    """One greenlet that waits for the first of several events."""

    __slots__ = ("answer", "done", "me", "process")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.me = getcurrent()
        self.done = False
        self.answer: Any = None

    def wake(self, answer: Any = None) -> None:
        """Resumes it; only the first call counts."""
        if not self.done:
            self.done, self.answer = True, answer
            self.process.resume(self.me)


class Thread(greenlet):
    """A thread of a process."""

    process: Process


class Process:
    """A process of a simulated machine: its threads live, freeze and die together.

    Attributes:
        rng: Its own chance, so that what others do changes nothing of it.
        skew_s: By how much its clock on the wall is wrong.
        numbers: What numbers its messages, once it has sent one.
    """

    def __init__(self, hub: Hub, name: str, seed: int, *, skew_s: float = 0.0) -> None:
        self.hub = hub
        self.name = name
        self.rng = random.Random(f"{seed} {name}")
        self.skew_s = skew_s
        self.numbers: Any = None
        self.dead = False
        self.frozen = False
        self.on_end: list[Callable[[], None]] = []
        self.locks: list[SimCondition] = []
        self._threads: dict[Any, None] = {}
        self._held_back: deque[Any] = deque()
        self._thaws = 0

    def __repr__(self) -> str:
        return self.name

    # ---- from outside: in the hub ----

    def when_awake(self, event: Callable[[], None]) -> None:
        """Has something happen now, or when it thaws; never if it is dead by then."""
        if self.frozen:
            self._held_back.append(event)
        elif not self.dead:
            event()

    def spawn(self, work: Callable[[], None]) -> None:
        """Starts a thread, at this moment but after whoever asks."""
        thread = Thread(lambda: self._run(work), parent=self.hub._main)
        thread.process = self
        self._threads[thread] = None
        self.hub.at(0.0, lambda: self.resume(thread))

    def resume(self, thread: Any) -> None:
        """Lets a thread go on, once the process is not frozen."""
        if self.dead or thread.dead:
            return
        if self.frozen:
            self._held_back.append(thread)
        elif getcurrent() is self.hub._main:
            thread.switch()
        else:
            self.hub.at(0.0, lambda: self.resume(thread))

    def kill(self) -> None:
        """Ends it at once: nothing that it has begun goes on."""
        if self.dead:
            return
        if getcurrent() is not self.hub._main:
            self.hub.at(0.0, self.kill)
            if getcurrent() in self._threads:
                self.hub.switch()
            return
        self.dead = self.hub.look = True
        for thread in list(self._threads):
            if not thread.dead:
                thread.throw(GreenletExit)
        self._threads.clear()
        for tell in self.on_end:
            tell()

    def freeze(self, for_s: float) -> None:
        """Stops it; it thaws after a while, and knows nothing of it."""
        if self.dead:
            return
        self.frozen = True
        self._thaws += 1
        thaws = self._thaws
        self.hub.at(for_s, lambda: self.thaw() if self._thaws == thaws else None)

    def thaw(self) -> None:
        """Lets it go on."""
        if self.frozen:
            self.frozen = False
            held, self._held_back = self._held_back, deque()
            for one in held:
                again = partial(self.resume, one) if isinstance(one, greenlet) else partial(self.when_awake, one)
                self.hub.at(0.0, again)

    # ---- from inside: in one of its threads ----

    def sleep(self, seconds: float) -> None:
        """Lets time pass."""
        thread = getcurrent()
        self.check()
        self.hub.at(seconds, lambda: self.resume(thread))
        self.hub.switch()
        self.check()

    def wait(self, waiter: Waiter, limit_s: float) -> bool:
        """Waits until the waiter is woken; returns False if the limit came first."""
        self.check()
        if not waiter.done:
            self.hub.at(limit_s, lambda: waiter.wake(_LATE))
            self.hub.switch()
        self.check()
        return waiter.answer is not _LATE

    def check(self) -> None:
        """Ends a thread of a dead process, wherever it is; refuses to wait under a lock."""
        if self.dead:
            raise GreenletExit
        me = getcurrent()
        for lock in self.locks:
            if lock.owner is me:
                self.hub.crashes.append(f"{self.name} waited under the lock that nodes report under")
                raise SimulationError(self.hub.crashes[-1])

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except GreenletExit:
            pass
        except OverrunError:
            raise
        except BaseException as error:
            if not self.dead:
                self.hub.crashes.append(f"{self.name}: {type(error).__name__}: {error}")
                if isinstance(error, SimulationError):
                    raise
        finally:
            self._threads.pop(getcurrent(), None)
            if not self._threads and not self.dead:
                self.hub.at(0.0, self._ended)

    def _ended(self) -> None:
        if not self._threads:
            self.kill()


def running() -> Process:
    """Returns the process whose thread asks."""
    thread = getcurrent()
    if not isinstance(thread, Thread):
        raise SimulationError("no simulated process runs")
    return thread.process


_LATE = object()


class SimCondition(threading.Condition):
    """A condition whose owner is a greenlet; who waits for it gives way to the hub."""

    def __init__(self, process: Process, wakes_in_s: float) -> None:
        """Makes one that nobody holds.

        Args:
            wakes_in_s: So long it takes who waits to come back: what comes meanwhile is seen at once.
        """
        super().__init__()
        self._wakes_in_s = wakes_in_s
        self.process = process
        self.owner: Any = None
        self._depth = 0
        self._waiting: list[Waiter] = []
        process.locks.append(self)

    def __enter__(self) -> bool:
        me = getcurrent()
        if self.owner is not None and self.owner is not me:
            raise SimulationError("two hold one lock")
        self.owner = me
        self._depth += 1
        return True

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.owner = None

    def is_owned(self) -> bool:
        """Whether the caller holds it."""
        return self.owner is getcurrent()

    def notify_all(self) -> None:
        """See `threading.Condition`."""
        waiters, self._waiting = self._waiting, []
        for waiter in waiters:
            self.process.hub.at(self._wakes_in_s, waiter.wake)

    def notify(self, n: int = 1) -> None:
        """See `threading.Condition`."""
        del n
        self.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Condition`."""
        if not self.is_owned():
            raise SimulationError("waited for a condition without its lock")
        waiter = Waiter(self.process)
        self._waiting.append(waiter)
        self.owner, depth, self._depth = None, self._depth, 0
        try:
            return self.process.wait(waiter, 1e9 if timeout is None else timeout)
        finally:
            # Held by nobody: threads of one process change in the hub alone, between two events.
            self.owner, self._depth = getcurrent(), depth

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """See `threading.Condition`."""
        until_s = 1e9 if timeout is None else self.process.hub.now + timeout
        while not (answer := predicate()) and self.process.hub.now < until_s:
            self.wait(until_s - self.process.hub.now)
        return answer


class SimLock:
    """A lock that a thread of a simulated process may hold while it waits for the storage."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._held = False
        self._waiters: deque[Waiter] = deque()

    def acquire(self, blocking: bool = True) -> bool:
        """See `threading.Lock`."""
        while self._held:
            if not blocking:
                return False
            waiter = Waiter(self._process)
            self._waiters.append(waiter)
            self._process.wait(waiter, 1e9)
        self._held = True
        return True

    def release(self) -> None:
        """See `threading.Lock`."""
        self._held = False
        if self._waiters:
            self._process.hub.at(0.0, self._waiters.popleft().wake)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class SimEvent:
    """An event that a thread of a simulated process may wait for."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._set = False
        self._waiters: list[Waiter] = []

    def is_set(self) -> bool:
        """See `threading.Event`."""
        return self._set

    def set(self) -> None:
        """See `threading.Event`."""
        self._set = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._process.hub.at(0.0, waiter.wake)

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Event`."""
        if not self._set:
            waiter = Waiter(self._process)
            self._waiters.append(waiter)
            self._process.wait(waiter, 1e9 if timeout is None else timeout)
        return self._set


class SimThread:
    """A thread of the simulated process that makes it."""

    def __init__(self, target: Callable[[], None], name: str = "", *, daemon: bool = True) -> None:
        del name, daemon
        self._target = target
        self._process = running()

    def start(self) -> None:
        """See `threading.Thread`."""
        self._process.spawn(self._target)


THREADING = SimpleNamespace(
    Lock=lambda: SimLock(running()),
    Event=lambda: SimEvent(running()),
    Condition=lambda: SimCondition(running(), 0.0),
    Thread=SimThread,
)
"""What stands in for the module in the product's code that trainers run."""


class SimClock:
    """The `Clock` of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_s(self) -> float:
        """See `Clock`."""
        return self._process.hub.now + 1000.0

    def wall_s(self) -> float:
        """See `Clock`."""
        return EPOCH_S + self._process.hub.now + self._process.skew_s

    def wait(self, condition: threading.Condition, limit_s: float) -> None:
        """See `Clock`."""
        condition.wait(limit_s)

    def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        self._process.sleep(seconds)

    def beside(self, name: str, work: Callable[[], None]) -> None:
        """See `Clock`."""
        del name
        self._process.spawn(work)

    def every(self, name: str, interval_s: float, work: Callable[[], bool]) -> None:
        """See `Clock`."""

        def again() -> None:
            goes_on = True
            while goes_on:
                self.sleep(interval_s)
                goes_on = work()

        self.beside(name, again)


EPOCH_S = 1_790_000_000.0
