"""Work of obstore's that only `async` has, for callers that have none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


def awaited(work: Coroutine[Any, Any, _T]) -> _T:
    """Returns the result of work; on a thread of its own where the caller's has an event loop, as a notebook's has."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="awaited") as pool:
        return pool.submit(asyncio.run, work).result()
