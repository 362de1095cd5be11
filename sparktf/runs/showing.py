"""`sparktf show`: how a run went, or how it goes."""

from __future__ import annotations

import threading

from rich.console import Console

from sparktf.clock import Clock
from sparktf.driver.console import Display, print_result
from sparktf.knobs import KNOBS
from sparktf.runs.finding import FoundRun
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
        display.say(f"{run.title} has not ended: what its driver says is shown as it comes, and the result at the end")
    while result is None:
        follower.poll()
        result = follower.standing()
        if result is None:
            with nobody:
                clock.wait(nobody, KNOBS.follow_s)
    print_result(console, result)
