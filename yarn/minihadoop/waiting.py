"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

from minihadoop.errors import NotReadyError

POLL_S = 0.2


def wait_for(what: str, missing: Callable[[], str], deadline_s: float, clues: Callable[[], str] = str) -> None:
    """Waits until `missing` returns an empty text.

    Args:
        what: The condition, for the error: "the DataNode of host2 is dead to the NameNode".
        missing: Returns what is still missing, in words.
        deadline_s: Time to wait.
        clues: Returns a possible explanation, such as the last lines of a log.

    Raises:
        NotReadyError: Something is still missing at the deadline.
    """
    deadline = time.monotonic() + deadline_s
    while still := missing():
        if time.monotonic() > deadline:
            raise NotReadyError("\n".join(filter(None, [f"not within {deadline_s:g} s: {what}: {still}", clues()])))
        time.sleep(POLL_S)
