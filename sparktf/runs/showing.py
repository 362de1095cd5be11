"""`sparktf show`: the result of a run, or its progress."""

from __future__ import annotations

import threading

from rich.console import Console

from sparktf.clock import Clock
from sparktf.console.console import Display
from sparktf.console.result_table import print_result
from sparktf.errors import StorageError
from sparktf.knobs import KNOBS
from sparktf.runs.finding import FoundRun
from sparktf.runs.listing import roughly
from sparktf.storage.transactions.terms import UNHEARD, LastWord, last_word
from sparktf.submit.follow import Follower

_LOOK_S = 10.0
"""Interval of looks whether the driver is alive."""


def show(run: FoundRun, console: Console, clock: Clock) -> None:
    """Prints the result of a run; follows one that is under way until it ends or its driver is gone.

    Raises:
        CorruptFileError: its result cannot be read.
        StorageError: the storage failed at the start; later failures are waited out.
    """
    run.result()  # a result that cannot be read would be followed for ever
    display = Display(console, 1.0, 1)
    follower = Follower(run.storage, run.rundir, display)
    result, nobody = follower.standing(), threading.Condition()
    word, is_over, looked_s = UNHEARD, False, clock.now_s()
    if result is None:
        word = last_word(run.storage, run.rundir)
        is_over = word.is_over(clock.wall_s())
        if not is_over:
            display.say(f"{run.title} has not ended{_ago(word, clock)}: it is followed until it has")
    while result is None:
        follower.poll()
        result = follower.standing()
        if result is None and is_over:
            display.say(
                f"{run.title} has no result{_ago(word, clock)}, and nobody is at work on it: submit the same run id, "
                "which goes on where it was"
            )
            return
        if result is None:
            with nobody:
                clock.wait(nobody, KNOBS.follow_s)
            if clock.now_s() - looked_s >= _LOOK_S:
                looked_s, word = clock.now_s(), _word(run, word)
                is_over = word.is_over(clock.wall_s())
    print_result(console, result)


def _word(run: FoundRun, before: LastWord) -> LastWord:
    """Returns the owner's last word; the previous one if the storage does not answer."""
    try:
        return last_word(run.storage, run.rundir)
    except StorageError:
        return before


def _ago(word: LastWord, clock: Clock) -> str:
    return f", its last word came {roughly(max(clock.wall_s() - word.heard_s, 0.0))} ago" if word.heard_s else ""
