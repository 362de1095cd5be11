"""Waits for Kerberos with a deadline: its libraries take none, and a KDC that is silent would hold them for minutes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def answer_in_time(call: Callable[[], _T], limit_s: float) -> _T:
    """Returns the result of a call, or raises its error. A call that is late goes on, and nobody waits for it.

    Args:
        limit_s: Seconds.

    Raises:
        TimeoutError: it is late.
    """
    answers: queue.SimpleQueue[tuple[_T] | Exception] = queue.SimpleQueue()
    threading.Thread(target=_answer, args=(call, answers), name="kerberos", daemon=True).start()
    try:
        found = answers.get(timeout=limit_s)
    except queue.Empty:
        raise TimeoutError(f"no answer within {limit_s:g} s: see whether the realm's KDC is up") from None
    if isinstance(found, Exception):
        raise found
    return found[0]


def _answer(call: Callable[[], _T], answers: queue.SimpleQueue[tuple[_T] | Exception]) -> None:
    try:
        answers.put((call(),))
    except Exception as error:  # noqa: BLE001 - raised by whoever waits
        answers.put(error)
