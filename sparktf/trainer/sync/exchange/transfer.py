"""Moves the messages of one step, each way at once, in one thread: whatever a socket takes or has, until it is done."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sparktf.trainer.sync.exchange.frames import HEADER_NBYTES, Frame
from sparktf.trainer.sync.exchange.link import Awaited, Link

CHUNK_NBYTES = 1 << 20
"""Received before it is added: it stays in the processor's cache."""

_LOOK_S = 1.0

Array = npt.NDArray[Any]


class Outgoing:
    """A message on its way to a peer."""

    def __init__(self, link: Link, frame: Frame, content: Array) -> None:
        """Takes the bytes of a contiguous array."""
        self.link = link
        self._views = [memoryview(frame.packed())]
        if content.nbytes:
            self._views.append(bytes_of(content))
        self.wanted = Awaited(read=False, write=True)

    @property
    def is_done(self) -> bool:
        return not self._views

    def advance(self) -> bool:
        """Sends what fits; returns whether that was anything."""
        sent, self.wanted = self.link.send(self._views[0])
        rest = self._views[0][sent:]
        self._views[:1] = [rest] if len(rest) else []
        return sent > 0


class Incoming:
    """A message that is due from a peer, written over an array, or added to it."""

    def __init__(self, link: Link, frame: Frame, into: Array, *, spare: Array | None = None) -> None:
        """Expects a message.

        Args:
            into: Contiguous; its bytes are those of the message.
            spare: At least `CHUNK_NBYTES`, uint8: the message is added to `into` by way of it. Default: no adding.
        """
        self.link = link
        self._frame = frame
        self._header = bytearray(HEADER_NBYTES)
        self._view = memoryview(self._header)
        self._in_header = True
        self._into = into
        self._spare = spare
        self._done = 0  # Items of `into`
        self.is_done = False
        self.wanted = Awaited(read=True, write=False)

    def advance(self) -> bool:
        """Receives what is there; returns whether that was anything."""
        count, self.wanted = self.link.receive(self._view)
        self._view = self._view[count:]
        if count and not len(self._view):
            self._next()
        return count > 0

    def _next(self) -> None:
        """Goes on after the header, or after a chunk."""
        if self._in_header:
            self._frame.check(self._header, self.link.peer)
            self._in_header = False
        elif self._spare is None:
            self._done = len(self._into)
        else:
            chunk = self._chunk()
            np.add(chunk, self._spare[: chunk.nbytes].view(chunk.dtype), out=chunk)
            self._done += len(chunk)
        if self._done == len(self._into):
            self.is_done = True
        else:
            self._view = bytes_of(self._into) if self._spare is None else bytes_of(self._spare[: self._chunk().nbytes])

    def _chunk(self) -> Array:
        return self._into[self._done : self._done + CHUNK_NBYTES // self._into.itemsize]


def move(outgoing: Outgoing | None, incoming: Incoming | None, woken: int, check: Callable[[], None]) -> None:
    """Sends one message while another is received; returns when both are done.

    Args:
        woken: A file descriptor that can be read once the wait is to end.
        check: Called then, and now and then while nothing comes; raises to end the wait.
    """
    while True:
        open_ = [each for each in (outgoing, incoming) if each is not None and not each.is_done]
        if not open_:
            return
        advanced = [each.advance() for each in open_]  # each of them, whether or not another has
        if not any(advanced):
            _wait(open_, woken, check)


def _wait(open_: list[Outgoing | Incoming], woken: int, check: Callable[[], None]) -> None:
    poll = select.poll()
    events: dict[int, int] = {woken: select.POLLIN}
    for each in open_:
        asked = select.POLLIN * each.wanted.read | select.POLLOUT * each.wanted.write
        events[each.link.sock.fileno()] = events.get(each.link.sock.fileno(), 0) | asked
    for descriptor, asked in events.items():
        poll.register(descriptor, asked)
    ready = poll.poll(_LOOK_S * 1000)
    if not ready or any(descriptor == woken for descriptor, _ in ready):
        check()
        for each in open_:
            each.link.check()


def bytes_of(array: Array) -> memoryview:
    """Returns the bytes of a contiguous array, which may be of a type that `memoryview` does not know (bfloat16)."""
    return array.view(np.uint8).reshape(-1).data
