"""`sparktf show`: how a run went, or how it goes."""

from __future__ import annotations

import threading

from rich.console import Console

from sparktf.clock import Clock
from sparktf.driver.console import Display, print_result
from sparktf.errors import StorageNotFoundError
from sparktf.knobs import KNOBS
from sparktf.runs.finding import FoundRun
from sparktf.runs.listing import roughly
from sparktf.submit.follow import Follower


def show(run: FoundRun, console: Console, clock: Clock) -> None:
    """Prints the result of a run that has ended; one that is under way is followed until it has.

    Raises:
        CorruptFileError: its result cannot be read.
        StorageError: the storage failed at the start; later it is waited for.
    """
    run.result()  # what cannot be read would be followed for ever
    display = Display(console, 1.0, 1)
    follower = Follower(run.storage, run.rundir, display)
    result, nobody = follower.standing(), threading.Condition()
    if result is None:
        display.say(f"{run.title} has not ended{_heard(run, clock)}: it is followed until it has")
    while result is None:
        follower.poll()
        result = follower.standing()
        if result is None:
            with nobody:
                clock.wait(nobody, KNOBS.follow_s)
    print_result(console, result)


def _heard(run: FoundRun, clock: Clock) -> str:
    """Returns when its driver last stored anything of what it said: one that is gone says nothing more."""
    try:
        last_ms = max((entry.modified_ms for entry in run.storage.list(run.rundir.events)), default=0)
    except StorageNotFoundError:
        last_ms = 0
    return f", its last word came {roughly(max(clock.wall_s() - last_ms / 1000, 0.0))} ago" if last_ms else ""
