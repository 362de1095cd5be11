"""Looks after a fence between commits."""

from __future__ import annotations

from functools import partial

from sparktf.clock import Clock
from sparktf.knobs import KNOBS
from sparktf.storage.transactions.fence import Fence


class FenceWatch:
    """Looks now and then whether a fence still stands, so that a driver whose run is another's trains no further.

    It only spares work: what is written goes through the fence all the same.
    """

    def __init__(self, fence: Fence, clock: Clock) -> None:
        self._fence = fence
        self._clock = clock
        self._begun_s: float | None = None
        self._under_way = False
        self._gone = ""

    def check(self) -> None:
        """Begins a look when one is due, beside the caller; never waits for the storage.

        Raises:
            FencedOffError: the last look found the fence gone, or the last beat a newer owner.
        """
        self._fence.check_owner()
        path, now_s = self._fence.path, self._clock.now_s()
        if path is not None and self._gone == path:
            raise self._fence.lose()
        if self._begun_s is None:
            self._begun_s = now_s  # the fence was made just now
        elif path is not None and is_look_due(self._begun_s, self._under_way, now_s):
            self._begun_s, self._under_way = now_s, True
            self._clock.beside("fence", partial(self._look_at, path))

    def _look_at(self, path: str) -> None:
        try:
            if self._fence.looks_gone(path):
                self._gone = path
        finally:
            self._under_way = False


def is_look_due(begun_s: float, under_way: bool, now_s: float) -> bool:
    """Returns whether to look again; `under_way` says that the last look, begun at `begun_s`, has not ended yet."""
    return not under_way and now_s - begun_s >= KNOBS.fence_look_s
